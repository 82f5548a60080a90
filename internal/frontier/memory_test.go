package frontier

import (
	"fmt"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestMemory fills windows to the limit and has the number of hosts grow.
func TestMemory(t *testing.T) {
	orders := []order{exactOrders[0], exactOrders[1], allOrders()[4]}
	if testing.Short() {
		orders = orders[:1]
	}
	in(t, orders, testMemory)
}

func testMemory(t *testing.T, o order) {
	s := newStore()
	f := start(t, s, o.options(Options{Memory: 4 << 20, MaxHosts: 5000, Delay: time.Second}))
	check := func(hosts int, least int64) {
		t.Helper()
		if b := f.figures().Windows; b > 4<<20 || b < least {
			t.Errorf("%d hosts: windows take %d bytes, want %d to %d", hosts, b, least, 4<<20)
		}
	}
	seq := uint64(0)
	add := func(host, n int) {
		rows := make([]record.Row, n)
		for i := range rows {
			seq++
			rows[i] = row(fmt.Sprintf("h%d.example", host), uint64(i), seq)
		}
		f.Add(rows, 1)
	}
	for i := range 20 {
		add(i, 2000)
	}
	check(20, 2<<20)
	for i := range 5000 {
		add(i, 8)
		if i%1000 == 0 {
			check(i, 1<<20)
		}
	}
	check(5000, 2<<20)
	checkInvariants(t, f)
	var few int
	for _, h := range f.hosts.byName {
		if h.win.len() > 0 {
			few++
		}
	}
	if least := 4 << 20 / (2 * (int(f.opts.fixed()) + 840)); few < least {
		t.Errorf("only %d of 5000 hosts have a window, want %d: the memory shared", few, least)
	}
}
