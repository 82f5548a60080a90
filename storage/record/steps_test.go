package record

import (
	"errors"
	"slices"
	"testing"
)

// FuzzStep: what decodes as a step, or as the rows of one, encodes to the same bytes.
func FuzzStep(f *testing.F) {
	s := Step{Number: 300, Asking: 7, Phase: StepSends, Busy: true, Trace: Trace{1 << 63, 9}}
	v := s.Append(nil)
	f.Add(v[:len(v)-4])
	f.Add([]byte{3, 0, 0, 0, 0, 0})
	f.Add([]byte{0, 2, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		value := Seal(slices.Clone(body), KeyStep)
		s, err := DecodeStep(value)
		switch {
		case err == nil:
			if got := s.Append(nil); string(got) != string(value) {
				t.Errorf("%q became %q", value, got)
			}
		case !errors.Is(err, ErrCorrupt):
			t.Error(err)
		}
		value = Seal(slices.Clone(body), KeyMembers)
		members, err := DecodeMembers(value)
		if got := AppendMembers(nil, members); err == nil && string(got) != string(value) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q became %q, %v", value, got, err)
		}
	})
}

// TestTrace: a trace depends on what came of which URL in which step, and not on the order within
// steps.
func TestTrace(t *testing.T) {
	outcome := func(url string, s State, reason string) *Record {
		return &Record{Row: Row{URL: url, Reason: reason}, State: s}
	}
	a, b := outcome("http://a/", Stored, ""), outcome("http://b/", Failed, "404")
	trace := func(steps ...uint64) (tr Trace) {
		tr.Add(steps[0], a)
		tr.Add(steps[1], b)
		return tr
	}
	var turned Trace
	turned.Add(1, b)
	turned.Add(1, a)
	if turned != trace(1, 1) {
		t.Error("another order is another trace")
	}
	var other Trace
	other.Add(1, a)
	other.Add(1, outcome("http://b/", Failed, "410"))
	if same := trace(1, 1); same == trace(1, 2) || same == trace(2, 1) || same == other || trace(1, 2) == trace(2, 1) {
		t.Error("other steps or outcomes are the same trace")
	}
}
