package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// A StepPhase is how far a superstep has come.
type StepPhase uint8

const (
	// StepAsks is the phase in which its URLs are asked.
	StepAsks StepPhase = iota
	// StepSends is the phase in which its URLs have their outcomes and links go to other processes.
	StepSends
	// StepMerges is the phase in which every process has the links that are for it, and merges them.
	StepMerges
)

// A Step is the superstep that a crawl in bulk is in.
type Step struct {
	Number uint64 // from 0, in which nothing is asked: the seeds come
	Asking uint64 // steps in which this process had a URL to ask
	Phase  StepPhase
	Busy   bool  // from StepSends on: this process had URLs or links in this step
	Trace  Trace // of all outcomes of this process, in this step and those before
}

// A Trace is a digest of what came of which URL in which step. The outcomes of one step may be
// added in any order.
type Trace [2]uint64

// Add takes in what came of a URL or a sitemap in a step.
func (t *Trace) Add(step uint64, r *Record) {
	var b []byte
	for _, n := range []uint64{step, uint64(r.Kind), uint64(r.State)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(appendString(appendString(b, r.URL), r.Reason))
	t[0] += binary.BigEndian.Uint64(sum[:])
	t[1] += binary.BigEndian.Uint64(sum[8:])
}

// String returns the trace in hexadecimal digits.
func (t Trace) String() string { return fmt.Sprintf("%016x%016x", t[0], t[1]) }

// Append writes the value that stands under KeyStep.
func (s *Step) Append(b []byte) []byte {
	busy := byte(0)
	if s.Busy {
		busy = 1
	}
	b = append(b, byte(s.Phase), busy)
	for _, n := range []uint64{s.Number, s.Asking, s.Trace[0], s.Trace[1]} {
		b = binary.AppendUvarint(b, n)
	}
	return Seal(b, KeyStep)
}

// DecodeStep reads a value that Append has made; no value is that of a crawl without steps.
func DecodeStep(v []byte) (s Step, err error) {
	if v == nil {
		return s, nil
	}
	d := unseal(v, KeyStep)
	phase, busy := d.byte(), d.byte()
	s.Phase, s.Busy = StepPhase(phase), busy == 1
	for _, n := range []*uint64{&s.Number, &s.Asking, &s.Trace[0], &s.Trace[1]} {
		*n = d.uvarint()
	}
	d.bad = d.bad || s.Phase > StepMerges || busy > 1
	return s, d.end("step", "")
}

// AppendMembers writes the value that stands under KeyMembers: fingerprints of the rows of a step.
func AppendMembers(b []byte, members []uint64) []byte {
	for _, m := range members {
		b = binary.BigEndian.AppendUint64(b, m)
	}
	return Seal(b, KeyMembers)
}

// DecodeMembers reads such a value; no value is that of a step without rows.
func DecodeMembers(v []byte) (members []uint64, err error) {
	if v == nil {
		return nil, nil
	}
	body, err := Unseal(v, KeyMembers)
	if err != nil || len(body)%8 != 0 {
		return nil, fmt.Errorf("rows of a step: %w", ErrCorrupt)
	}
	for ; len(body) > 0; body = body[8:] {
		members = append(members, binary.BigEndian.Uint64(body))
	}
	return members, nil
}
