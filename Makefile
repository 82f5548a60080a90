# Everything that is built or checked has one target here; `make` alone builds.
#
#   build      bin/crawler, static            install  the same, into $(go env GOBIN)
#   test       all tests of the crawler with the race detector, the long ones in a short form;
#              tests that were skipped are listed with their reasons
#   long       the tests that have a short form in test, in their usual length, and those of tools,
#              without the race detector; those of the command in the short form, in which its
#              processes have the race detector too; what a page costs, and each benchmark of a
#              stage ten times, to see that it still works
#   faults     a crawl in which each call of the disk fails, and one that loses its power at each;
#              a crawl and a merge in which each system call on index.db fails, and crawls in which
#              one does not come back (strace);
#              the tree alone on a real disk
#   mutations  each promise broken by a patch, which the test that the patch names must notice
#   race       the short tests again on 1, 2 and 8 threads, to shake the schedules
#   lint       vet, also for macOS, staticcheck, gofumpt: prints nothing when all is well
#   fuzz       every fuzz target for FUZZTIME
#   bench      every benchmark                demo     builds and crawls a web of its own
#   bench-crawl  what a page takes, by stages, in a crawl from end to end; all figures in
#              bin/bench-crawl.json (BENCH: more flags, which win)
#   bench-peers  the documentation of a JDK, fetched once, by this crawler and by wget2, wget and
#              HTTrack, as far as they are installed (root, nginx); bin/bench-peers.json (BENCH)
#   bench-scale   cost and memory while a crawl of a web without an end grows (BENCH; it needs
#              synthweb in SHARED); bin/scale
#   bench-resume  how soon a crawl of millions of known URLs goes on (BENCH); bin/resume
#   verify     the Promela models: good ones must hold, broken ones must fail (spin, gcc)
#   test-real  tests named TestReal against documentation packages of the distribution
#   test-hostile  a web that plays failures of the real one, and what a user would call right
#              (with a budget of hosts that a fast machine reaches within the seconds of a case)
#   soak       crawls made-up webs for SOAK with kills, power cuts, full disks, lost indexes, from SEED
#              on, then as long others with three nodes
#   hostile-load  200 hosts that stall, lie and never end, beside good ones, for LOAD
#   full       all tests, the long ones included, the models with larger constants, and test-real
#              against six packages
#   dist       what a release has, of the last commit, in bin/dist: archives for Linux and macOS,
#              Debian packages, checksums; the same commit gives the same bytes
#   test-dist  builds that, and plays a user's day with the Debian package: installs, crawls, upgrades
#              and purges it on this machine (root)
#   clean      removes what the others made
#
# With TEST_URLTREE_SHARE=K/N in the environment long, faults, mutations, verify and fuzz take the
# K-th of N shares of their cases, and N runs in a row take all.

SHARED   ?= ../shared
FUZZTIME ?= 10s
# A folder that the go command skips; kept between runs.
CORPUS   ?= bin/_corpus
PACKAGES ?= python3.11-doc postgresql-doc-15

TIMEOUT  ?= 20m

# Without what only a debugger reads, tests are compiled and linked sooner, which counts where the
# build cache is empty.
RACE     := -race -short -gcflags=all=-dwarf=false -ldflags='-s -w'

SOAK     ?= 10m
SEED     ?= 1
LOAD     ?= 10m

# Tests run in the folder of their package, so they need an absolute path.
override SHARED := $(abspath $(SHARED))
export SHARED

.PHONY: build install test long race lint fuzz bench bench-crawl bench-peers bench-scale bench-resume demo verify test-real test-hostile full clean soak hostile-load faults mutations dist test-dist

# The version comes from git, where git may be asked.
VCS := $(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && echo true || echo false)

build:
	CGO_ENABLED=0 go build -trimpath -buildvcs=$(VCS) -o bin/crawler ./cmd/crawler

install:
	CGO_ENABLED=0 go install -trimpath -buildvcs=$(VCS) ./cmd/crawler

# With -p the tests of four packages run at once, the longest from the beginning: those that wait for
# a second of a host or a disk leave the processors to others.
test:
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 go run -C tools ./testlog -C .. -tmpfs $(RACE) -p 4 -parallel 8 -vet=off -timeout 20m ./crawler ./cmd/crawler ./storage ./iut ./...

long:
	go run -C tools ./testlog -C .. -long -share -count=1 -parallel 4 -timeout 20m ./...
	go run -C tools ./testlog -count=1 -parallel 4 -timeout 20m ./...
	TEST_URLTREE_RACE=1 CGO_ENABLED=1 go run -C tools ./testlog -C .. -tmpfs -share $(RACE) -count=1 -parallel 8 -timeout 20m ./cmd/crawler
	go test -C tools -count=1 -run '^TestCost' -bench . -benchtime 10x -timeout 5m ./stages

faults:
	TEST_URLTREE_FULL=1 GOGC=300 go test -count=1 -v -parallel 48 -timeout $(TIMEOUT) -run 'AtEveryCall$$' ./crawler
	TEST_URLTREE_FULL=1 go run -C tools ./testlog -C .. -tmpfs -count=1 -parallel 48 -timeout $(TIMEOUT) -run '^(TestFaultAtEverySystemCall|TestHangingIndex)$$' ./cmd/crawler
	TEST_URLTREE_FULL=1 go test -count=1 -v -timeout $(TIMEOUT) -run '^TestFailAtEveryCallOnDisk$$' ./iut

mutations:
	internal/mutations/run.sh

race:
	TEST_URLTREE_RACE=1 go test $(RACE) -count=1 -cpu 1,2,8 -timeout 20m ./...
	go test -C tools $(RACE) -count=1 -cpu 1,2,8 -timeout 20m ./...

lint:
	go vet ./...
	go vet -C tools ./...
	GOOS=darwin go vet ./...
	GOOS=darwin go vet -C tools ./...
	go tool staticcheck ./...
	cd tools && $$(go -C .. tool -n staticcheck) ./...
	@files=$$(go tool gofumpt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted (go tool gofumpt -w):"; echo "$$files"; exit 1; fi

fuzz:
	internal/fuzz/run.sh $(FUZZTIME)

bench:
	go test -run '^$$' -bench . -benchmem ./...
	go test -C tools -run '^$$' -bench . -benchmem ./...

bench-crawl:
	go run -C tools ./crawl -json bin/bench-crawl.json $(BENCH)

bench-peers:
	go run -C tools ./peers -json bin/bench-peers.json $(BENCH)

bench-scale:
	go run -C tools ./scale $(BENCH)

bench-resume:
	go run -C tools ./resume $(BENCH)

demo: build
	bin/crawler demo

verify:
	iut/model/verify.sh

test-real:
	@if [ ! -x $(SHARED)/corpus/fetch-corpus.sh ]; then \
		echo "test-real: skipped, there is no $(SHARED)/corpus/fetch-corpus.sh"; \
	elif ! $(SHARED)/corpus/fetch-corpus.sh $(CORPUS) $(PACKAGES); then \
		echo "test-real: skipped, cannot fetch $(PACKAGES)"; \
	elif ! go test -list '^TestReal' ./... | grep -q '^TestReal'; then \
		echo "test-real: no package has a test named TestReal"; exit 1; \
	else \
		TEST_URLTREE_CORPUS=$(abspath $(CORPUS))/www go test -run '^TestReal' -count=1 -timeout $(TIMEOUT) ./...; \
	fi

test-hostile: build
	@if [ ! -d $(SHARED)/hostileweb/caseweb ]; then \
		echo "test-hostile: skipped, there is no $(SHARED)/hostileweb"; \
	else \
		go build -C $(SHARED)/hostileweb/caseweb -o $(abspath bin)/caseweb . && \
		bin/caseweb runcase -j 8 -slack 20 -ua urltree \
			-map 'assets=-assets' -map 'below-seed=-scope prefix' -map 'same-host=-scope host' \
			-map 'user-and-header=-user me -password secret -header "X-Secret: s3"' \
			-cmd '$(abspath bin)/crawler -delay 50ms -time {time} -input {seeds} -output {out} -budget-domain 1000 {flags}' \
			$(SHARED)/hostileweb/cases $(SHARED)/hostileweb/cases2 >bin/hostile.log; code=$$?; \
		grep '^FAIL' bin/hostile.log | cut -c1-200 || true; tail -n 1 bin/hostile.log; exit $$code; \
	fi

dist:
	packaging/dist.sh

test-dist:
	packaging/day.sh

soak:
	go run -C tools ./soak -time $(SOAK) -seed $(SEED)
	go run -C tools ./soak -time $(SOAK) -seed $(SEED) -nodes 3

hostile-load:
	TEST_URLTREE_LOAD=$(LOAD) go test -count=1 -timeout 120m -run '^TestHostileLoad$$' -v ./crawler

full:
	TEST_URLTREE_FULL=1 go test -race -count=1 -timeout 120m ./...
	TEST_URLTREE_FULL=1 go test -C tools -race -count=1 -timeout 120m ./...
	iut/model/verify.sh large
	TEST_URLTREE_FULL=1 $(MAKE) test-real PACKAGES= CORPUS=$(CORPUS)-full TIMEOUT=120m

clean:
	rm -rf bin
	go clean -testcache
