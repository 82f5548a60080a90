// Package stages has a benchmark for each stage of a page, and guards what a page costs: both with
// pages of 24 KiB and 90 links, as handbooks have them.
//
//	go test -C tools -run '^$' -bench . -benchmem ./stages
//	go test -C tools -count=1 -run '^TestCost' -v ./stages
//
// The guards count what does not depend on the machine, and mean nothing under the race detector.
// make long runs them by themselves, and each benchmark ten times, so that it still works.
package stages
