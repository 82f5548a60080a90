package frontier

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"urltree/storage/record"
)

// jumped returns t as [time.Now] returns it after the clock of the machine was set by so many
// seconds: another wall time with the same monotonic reading. Both are in the first two words of a
// Time, the seconds of the wall time from bit 30 on of the first.
func jumped(t time.Time, seconds int64) time.Time {
	words := (*[2]uint64)(unsafe.Pointer(&t))
	words[0] += uint64(seconds << 30)
	return t
}

func TestJumped(t *testing.T) {
	now := time.Now()
	for _, hour := range []int64{-3600, 3600} {
		then := jumped(now, hour)
		if then.Unix()-now.Unix() != hour || then.Sub(now) != 0 {
			t.Fatalf("%v after %v: this is not how a Time looks inside", then, now)
		}
	}
}

// TestClockIsSet: the clock of the machine is set back or forward while a host rests: it is asked
// after exactly its delay all the same, and its back-off is as long as ever.
func TestClockIsSet(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seconds int64
		fault   bool
		least   time.Duration
		most    time.Duration
	}{
		{"back", -3600, false, 10 * time.Second, 10 * time.Second},
		{"forward", 3600, false, 10 * time.Second, 10 * time.Second},
		{"back after a failure", -3600, true, 10 * time.Second, 10 * time.Second},
		{"forward after a failure", 3600, true, 10 * time.Second, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			monotonic := time.Now() // which times in a bubble are not
			synctest.Test(t, func(t *testing.T) {
				var set int64
				begun := time.Now()
				now := func() time.Time { return jumped(monotonic.Add(time.Since(begun)), set) }
				s := newStore()
				f := start(t, s, Options{Delay: 10 * time.Second, MaxWait: time.Minute, Now: now})
				rows := []record.Row{row("a.example", 0, 1), row("a.example", 0, 2), row("a.example", 0, 3)}
				for _, r := range rows {
					s.rows[r.URL] = r
				}
				f.Add(rows, 1)
				for i := range rows {
					begin := time.Now()
					loans, err := f.Take(t.Context(), 1)
					if err != nil || len(loans) != 1 {
						t.Fatalf("Take %d gave %v, %v", i, loans, err)
					}
					if took := time.Since(begin); i > 0 && (took < tt.least || took > tt.most) {
						t.Errorf("the host is lent again after %v, want %v", took, tt.least)
					}
					set += tt.seconds // while the request is under way
					times := f.Answered(loans[0], Answer{Start: now(), End: now(), Fault: brokenIf(tt.fault && i == 0)})
					if left := time.Duration(times.Next - f.Now()); left < tt.least || left > tt.most {
						t.Errorf("next permitted in %v, want %v", left, tt.least)
					}
					f.Return(loans[0], nil)
					set += tt.seconds // while it rests
				}
			})
		})
	}
}

// TestClockSetBackBetweenRuns: stored times count from the end of the last run where the clock has
// been set back since, so that nobody waits until it is that late again.
func TestClockSetBackBetweenRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := time.Now().Add(1000 * time.Hour)
		s := newStore()
		r, due := row("a.example", 0, 1), row("a.example", 0, 2)
		due.Range, due.Due = record.Later, ended.Add(7*time.Second).UnixNano()
		s.rows[r.URL], s.rows[due.URL] = r, due
		s.table, _ = s.hosts()
		s.table[0].Next = ended.Add(5 * time.Second).UnixNano()
		f := start(t, s, Options{NotBefore: ended.UnixNano()})
		begin := time.Now()
		for _, want := range []time.Duration{5 * time.Second, 7 * time.Second} {
			loans, err := f.Take(t.Context(), 1)
			if err != nil || len(loans) != 1 {
				t.Fatalf("Take gave %v, %v", loans, err)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("asked after %v, want %v", took, want)
			}
			f.Answered(loans[0], Answer{})
			f.Return(loans[0], nil)
		}
	})
}
