// Package stages has a benchmark for each stage of a page, and guards what a page costs: both with
// pages of 24 KiB and 90 links, as handbooks have them.
//
//	go test -run '^$' -bench . -benchmem ./bench/stages
//	go test -count=1 -run '^TestCost' -v ./bench/stages
//
// The guards count what does not depend on the machine. make test runs them by themselves, since
// they mean nothing under the race detector; and each benchmark a few times, so that it still
// works.
package stages
