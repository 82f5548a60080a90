package watch

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"urltree/internal/inspect"
)

// metrics answers with the figures of the crawl, and those of this process, for Prometheus.
func (h *handler) metrics(w http.ResponseWriter, r *http.Request) {
	answer, err := h.ask(r.Context(), inspect.Question{Command: "status"})
	var s inspect.Status
	if err == nil {
		err = json.Unmarshal(answer, &s)
	}
	if err == nil && s.Crawl == nil {
		err = errors.New("no crawl has the tree")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	own := prometheus.NewRegistry()
	own.MustRegister(figures{&s}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := own.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return // the client is gone
		}
	}
}

// figures are the metrics of a Status.
type figures struct{ *inspect.Status }

// Describe describes nothing: which metrics there are is the matter of Collect.
func (figures) Describe(chan<- *prometheus.Desc) {}

// A metric is one of the server's; its labels are those of its values, in this order.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	values     func(put func(value float64, labels ...string))
}

// Collect sends all metrics.
func (f figures) Collect(ch chan<- prometheus.Metric) {
	for _, m := range f.list() {
		desc := prometheus.NewDesc("urltree_"+m.name, m.help, m.labels, nil)
		m.values(func(value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, m.kind, value, labels...)
		})
	}
	c := f.Crawl
	for name, spent := range map[string]struct {
		help string
		inspect.Spent
	}{
		"sync_duration_seconds":   {"Time to bring the pages of a transaction to the disk.", c.Sync},
		"commit_duration_seconds": {"Time to commit a transaction of the index.", c.Commit},
	} {
		ch <- summary(prometheus.NewDesc("urltree_"+name, spent.help, nil, nil), spent.Spent)
	}
	stages := prometheus.NewDesc("urltree_stage_duration_seconds", "Time that a URL spends in a stage.", []string{"stage"}, nil)
	for stage, spent := range c.Stages {
		ch <- summary(stages, spent, stage)
	}
}

func summary(desc *prometheus.Desc, s inspect.Spent, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstSummary(desc, uint64(s.Count), s.Sum, map[float64]float64{.5: s.P50, .95: s.P95, .99: s.P99}, labels...)
}

// list returns the metrics that are numbers. Counters are those of the run.
func (f figures) list() []metric {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	c := f.Crawl
	one := func(name, help string, kind prometheus.ValueType, value float64) metric {
		return metric{name, help, kind, nil, func(put func(float64, ...string)) { put(value) }}
	}
	by := func(name, help string, kind prometheus.ValueType, label string, values map[string]int64) metric {
		return metric{name, help, kind, []string{label}, func(put func(float64, ...string)) {
			for word, n := range values {
				put(float64(n), word)
			}
		}}
	}
	list := []metric{
		{"build_info", "1, with the version of the program.", gauge, []string{"version"}, func(put func(float64, ...string)) { put(1, f.Version) }},
		one("run_start_timestamp_seconds", "When the run began, in Unix time.", gauge, float64(f.Run.Start)),
		one("fetching", "1 while requests may begin, 0 while the run ends.", gauge, number(f.Phase == "fetch")),
		one("paused", "1 while the user has paused the crawl.", gauge, number(f.Paused)),
		one("waiting", "1 while the crawl waits for something and asks nothing.", gauge, number(f.Waiting != "")),

		one("pages_stored_total", "Pages stored.", counter, float64(f.Run.Stored)),
		one("page_bytes_total", "Bytes of the bodies of stored pages.", counter, float64(f.Run.Bytes)),
		one("urls_found_total", "URLs found.", counter, float64(f.Run.Found)),
		{"outcomes_total", "URLs done, by state and reason.", counter, []string{"state", "reason"}, func(put func(float64, ...string)) {
			for name, n := range f.Run.Outcomes {
				state, reason, _ := strings.Cut(name, " ")
				put(float64(n), state, reason)
			}
		}},
		by("responses_total", "URLs done, by the class of the status of the answer.", counter, "class", f.Run.Statuses),
		by("looks_total", "Looks at pages stored before, by what came of them.", counter, "outcome", f.Run.Looks),

		by("urls", "URLs of the tree by state.", gauge, "state", f.states()),
		one("stored_bytes", "Bytes of the bodies of all pages of the tree.", gauge, float64(f.Bytes)),
		by("hosts", "Hosts in memory by what they do.", gauge, "state", c.Hosts),
		one("downloads", "Requests under way.", gauge, float64(c.Downloads.Used)),
		one("downloads_limit", "Requests that may be under way.", gauge, float64(c.Downloads.Most)),
		one("buffer_items", "Items in the buffers, and on their way from there to the index.", gauge, float64(c.Buffers.Used)),
		one("buffer_items_limit", "Items that the buffers have room for.", gauge, float64(c.Buffers.Most)),
		one("memory_bytes", "Memory of the crawl that its bound is about.", gauge, float64(c.Memory.Used)),
		one("memory_limit_bytes", "Bound of the memory of the crawl.", gauge, float64(c.Memory.Most)),
		one("disk_reserve_bytes", "Free bytes on the disk of the tree below which fetching pauses.", gauge, float64(c.Disk.Least)),
		one("disk_pauses_total", "Pauses for want of room on the disk.", counter, float64(c.Disk.Pauses)),
		one("stuck_steps_total", "Steps that took longer than they may.", counter, float64(c.Stuck)),

		one("seen_filter_urls", "URLs in the filter of known URLs.", gauge, float64(c.Seen.URLs)),
		one("seen_filter_bytes", "Memory of the filter of known URLs.", gauge, float64(c.Seen.Used)),
		one("seen_filter_limit_bytes", "Bound of the memory of the filter of known URLs.", gauge, float64(c.Seen.Most)),
		one("seen_filter_complete", "1 if the filter has all URLs of the index.", gauge, number(c.Seen.Complete)),
		one("seen_filter_index_lookups_total", "Answers of the index where the filter had none.", counter, float64(c.Seen.Asked)),
		one("seen_filter_false_positives_total", "Of these, URLs that the filter held to be known.", counter, float64(c.Seen.FalsePositives)),
	}
	if c.Disk.Free >= 0 {
		list = append(list, one("disk_free_bytes", "Free bytes on the disk of the tree.", gauge, float64(c.Disk.Free)))
	}
	if c.Cluster != nil {
		list = append(list, one("cluster_lease", "1 while this node has the lease that lets it ask its hosts.", gauge, number(c.Cluster.Asks)))
	}
	return list
}

func (f figures) states() map[string]int64 {
	u := f.URLs
	return map[string]int64{
		"waiting": u.Waiting, "held": u.Held, "stored": u.Stored, "redirected": u.Redirected, "refused": u.Refused, "failed": u.Failed,
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
