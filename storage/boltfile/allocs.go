package boltfile

import (
	"reflect"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// An allocs is bbolt's account of which transaction has allocated a page, with an entry for each
// page in use that was free once since the file was opened. Nothing in bbolt bounds it. An entry
// takes 25 bytes: 33 MB at ten million URLs. It costs no time that can be measured.
//
// It is there to free pages that came and went while a reader was at work. A page without an entry
// counts as one from before the opening, and waits until all readers are through that may see it.
// So entries can be dropped between transactions, at the price of a file that grows a little more
// while a reader is slow. bbolt has no call for that, hence the way by reflection, which a test
// guards.
type allocs struct {
	entries reflect.Value // the map; not valid if bbolt has none any more, which a test would notice
	most    int           // so many are kept at most from one transaction to the next
}

// mostAllocs is about what ten commits leave.
const mostAllocs = 1 << 15

func allocsOf(db *bolt.DB) allocs {
	v := reflect.ValueOf(db)
	for _, name := range []string{"freelist", "shared", "allocs"} {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return allocs{}
		}
		v = v.FieldByName(name)
	}
	if v.Kind() != reflect.Map || !v.CanAddr() {
		return allocs{}
	}
	return allocs{reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem(), mostAllocs}
}

// shrink drops the entries if there are too many. No write transaction is going on.
func (a *allocs) shrink() {
	if a.entries.IsValid() && a.entries.Len() > a.most {
		a.entries.Clear()
	}
}
