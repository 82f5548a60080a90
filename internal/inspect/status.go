package inspect

import (
	"bufio"
	"encoding/json"
	"time"

	"urltree/storage/record"
)

// A Status is the state of a tree and of the crawl that has it. Times are in seconds.
type Status struct {
	Version string  `json:"version"`
	Time    float64 `json:"time"`    // Unix
	Phase   string  `json:"phase"`   // of Crawl, or "rest": no crawl has the tree
	Waiting string  `json:"waiting"` // what the crawl waits for; "": it is busy
	Paused  bool    `json:"paused"`  // the user wants it so

	Run   record.Run `json:"run"`   // this one, or the last one
	URLs  URLCounts  `json:"urls"`  // of the whole tree
	Bytes int64      `json:"bytes"` // of all stored pages

	Crawl *Crawl `json:"crawl,omitempty"` // nil: none has the tree
}

// URLCounts are numbers of URLs by their states.
type URLCounts struct {
	Waiting    int64 `json:"waiting"`
	Held       int64 `json:"held"`
	Stored     int64 `json:"stored"`
	Redirected int64 `json:"redirected"`
	Refused    int64 `json:"refused"`
	Failed     int64 `json:"failed"`
}

// NewURLCounts returns the numbers of records by their states.
func NewURLCounts(c record.Counts) URLCounts {
	return URLCounts{c.Open(), c.Held, c.Stored, c.Redirected, c.Refused, c.Failed}
}

// A Crawl is what only the process that crawls knows.
type Crawl struct {
	Elapsed   float64          `json:"elapsed"`
	Left      float64          `json:"left"` // 0: without limit
	PerSecond float64          `json:"per_second"`
	Mean      float64          `json:"mean"`
	Hosts     map[string]int64 `json:"hosts"` // in memory, by what they do
	Downloads Filled           `json:"downloads"`
	Buffers   Filled           `json:"buffers"` // items
	Memory    Filled           `json:"memory"`  // bytes
	Disk      Disk             `json:"disk"`
	Seen      Seen             `json:"seen"`
	Stages    map[string]Spent `json:"stages"`
	Sync      Spent            `json:"sync"`
	Commit    Spent            `json:"commit"`
	Stuck     int64            `json:"stuck"` // steps that took too long
	Cluster   *Cluster         `json:"cluster,omitempty"`
}

// Filled is how much of something is in use.
type Filled struct {
	Used int64 `json:"used"`
	Most int64 `json:"most"`
}

// Disk is the room on the disk of the tree.
type Disk struct {
	Free   int64 `json:"free"`  // bytes; -1: unknown
	Least  int64 `json:"least"` // bytes below which fetching pauses
	Pauses int64 `json:"pauses"`
}

// Seen is the filter of known URLs.
type Seen struct {
	Filled
	URLs           int64 `json:"urls"`
	Complete       bool  `json:"complete"` // it has all URLs of the index
	Asked          int64 `json:"asked"`    // answers of the index in its place
	FalsePositives int64 `json:"false_positives"`
}

// Spent is the time that something took, in seconds.
type Spent struct {
	Count int64   `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50,omitempty"`
	P95   float64 `json:"p95,omitempty"`
	P99   float64 `json:"p99,omitempty"`
}

// A Cluster is the part of this process in one crawl of several.
type Cluster struct {
	Asks bool `json:"asks"` // it has the lease that lets it ask its hosts
}

// status writes a Status in JSON.
func (i *Inspector) status(w *bufio.Writer) error {
	s := Status{Version: i.Software, Time: float64(time.Now().UnixMilli()) / 1e3, Phase: "rest"}
	total := i.Index.Totals()
	s.URLs, s.Bytes = NewURLCounts(total.Counts), total.Bytes
	if i.Status != nil {
		i.Status(&s)
	} else if runs, err := i.Index.Runs().All(); err != nil {
		return err
	} else if len(runs) > 0 {
		s.Run = runs[len(runs)-1]
	}
	return json.NewEncoder(w).Encode(&s)
}
