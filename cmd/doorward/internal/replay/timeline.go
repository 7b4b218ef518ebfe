package replay

import (
	"time"

	"github.com/doorward/doorward"
)

// A Timeline says what became of attempts over time, in steps of equal length.
type Timeline struct {
	From    time.Time `json:"from"`
	Seconds int64     `json:"step_seconds"`
	Steps   []Step    `json:"steps"`
}

// A Step is what became of the attempts of a stretch of time.
type Step struct {
	AdmittedFailed    int64 `json:"admitted_failed"`
	RefusedFailed     int64 `json:"refused_failed"`
	AdmittedSucceeded int64 `json:"admitted_succeeded"`
	RefusedSucceeded  int64 `json:"refused_succeeded"`
}

func (s Step) plus(o Step) Step {
	return Step{
		s.AdmittedFailed + o.AdmittedFailed, s.RefusedFailed + o.RefusedFailed,
		s.AdmittedSucceeded + o.AdmittedSucceeded, s.RefusedSucceeded + o.RefusedSucceeded,
	}
}

// maxSteps is how many steps there are at most. Past it they get longer.
const maxSteps = 240

// lengths of steps in seconds. Each is a multiple of the one before it.
var lengths = [...]int64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400, 3640 * 86400}

// A timeline takes attempts in the order of time.
type timeline struct {
	length int   // place in lengths
	first  int64 // step, counted from 1970
	steps  []Step
}

func (t *timeline) add(when int64, o doorward.Outcome, admitted bool) {
	second := floor(when, int64(time.Second))
	step := floor(second, lengths[t.length])
	if len(t.steps) == 0 {
		t.first = step
	}
	for step-t.first >= maxSteps && t.length < len(lengths)-1 {
		t.widen()
		step = floor(second, lengths[t.length])
	}
	for int64(len(t.steps)) <= step-t.first {
		t.steps = append(t.steps, Step{})
	}
	s := &t.steps[step-t.first]
	switch {
	case o == doorward.Succeeded && admitted:
		s.AdmittedSucceeded++
	case o == doorward.Succeeded:
		s.RefusedSucceeded++
	case o == doorward.Void:
	case admitted:
		s.AdmittedFailed++
	default:
		s.RefusedFailed++
	}
}

// widen makes the steps longer.
func (t *timeline) widen() {
	was := lengths[t.length]
	t.length++
	by := lengths[t.length] / was
	first := floor(t.first, by)
	var steps []Step
	for i, s := range t.steps {
		at := int(floor(t.first+int64(i), by) - first)
		for len(steps) <= at {
			steps = append(steps, Step{})
		}
		steps[at] = steps[at].plus(s)
	}
	t.first, t.steps = first, steps
}

func (t *timeline) report() Timeline {
	length := lengths[t.length]
	return Timeline{From: time.Unix(t.first*length, 0).UTC(), Seconds: length, Steps: append([]Step{}, t.steps...)}
}

// floor divides a by b, rounded down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
