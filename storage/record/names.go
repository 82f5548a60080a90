package record

import (
	"bytes"
	"fmt"
)

// CountedFrom is the number of records from which on a folder, or a path with queries, has a row
// with their counts. Below it they are counted one by one when a caller asks: in a large crawl most
// folders hold a handful of records, and with a row for each of them a new URL would change two
// places of the file in place of one.
const CountedFrom = 16

// Names of the buckets of the index; see package storage for what they hold.
var (
	BucketURL     = []byte("url")
	BucketPending = []byte("pending")
	BucketHost    = []byte("host")
	BucketRobots  = []byte("robots")
	BucketSitemap = []byte("sitemap")
	BucketOutside = []byte("outside")
	BucketWaiting = []byte("outside-pending")
	BucketRevisit = []byte("revisit")
	BucketLook    = []byte("look")
	BucketVersion = []byte("version")
	BucketFolder  = []byte("folder")
	BucketQuery   = []byte("query")
	BucketShorter = []byte("shorter")
	BucketMeta    = []byte("meta")
	BucketScope   = []byte("scope")
	BucketSeed    = []byte("seed")
	BucketDomain  = []byte("domain")
	BucketRun     = []byte("run")
	BucketHour    = []byte("hour")
	BucketSys     = []byte("sys")
	// BucketOutbox is there once a crawl of several processes has posted a link.
	BucketOutbox = []byte("outbox")
)

// Keys of the bucket sys.
var (
	KeySchema  = []byte("schema")
	KeyTotals  = []byte("totals")
	KeyFilter  = []byte("filter")
	KeyUnclean = []byte("unclean")
	KeyRelink  = []byte("relink")
	KeyEdges   = []byte("edges")
	KeyRanked  = []byte("ranked")
	KeyOptions = []byte("options")
	KeyReview  = []byte("review")
	KeySeeds   = []byte("seeds")
	KeyCopied  = []byte("copied")
	KeyCluster = []byte("cluster")
	KeyPosted  = []byte("posted")
	KeyStep    = []byte("step")
	KeyMembers = []byte("step-rows")
	KeyRecrawl = []byte("recrawl")

	OpenKeys    = []byte("segment-open ") // likewise of KeyOpen
	SegmentKeys = []byte("segment ")      // what the keys of segments begin with, see KeySegment
)

// Check returns what is wrong with a value of one of the buckets from which nothing else follows.
func Check(bucket, key, value []byte) (err error) {
	switch string(bucket) {
	case string(BucketRobots):
		_, err = DecodeRobots(string(key), value)
	case string(BucketRun):
		_, err = DecodeRun(key, value)
	case string(BucketOutbox):
		_, err = DecodePosted(key, value)
	case string(BucketHour):
		_, err = DecodeHour(key, value)
	default:
		sealed := key
		if bytes.Equal(key, KeySchema) {
			sealed = nil
		}
		if _, err = Unseal(value, sealed); err != nil {
			err = fmt.Errorf("%s %q: %w", bucket, key, err)
		}
	}
	return err
}
