package breaker

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

var errDown = errors.New("connection refused")

type story struct {
	*testing.T
	*Breaker
}

func tell(t *testing.T, p Policy) story {
	t.Helper()
	b, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return story{t, b}
}

// call makes a call that ends at once.
func (s story) call(d time.Duration, err error) {
	s.Helper()
	p, refused := s.Enter(at(d))
	if refused != nil {
		s.Fatalf("at %v: %v", d, refused)
	}
	s.Leave(p, err, at(d))
}

func (s story) refuses(d time.Duration) {
	s.Helper()
	if _, err := s.Enter(at(d)); !errors.Is(err, errDown) {
		s.Fatalf("at %v: %v, want a refusal that wraps what failed", d, err)
	}
}

func (s story) is(want State) {
	s.Helper()
	if got := s.Health().State; got != want {
		s.Fatalf("%v, want %v", got, want)
	}
}

const ms = time.Millisecond

var policy = Policy{Failures: 3, Rest: 100 * ms, MaxRest: 300 * ms}

func TestStates(t *testing.T) {
	s := tell(t, policy)
	s.call(0, errDown)
	s.call(1*ms, errDown)
	s.call(2*ms, nil)
	if h := s.Health(); h.State != Up || h.Err != errDown || !h.ErrAt.Equal(at(1*ms)) || !h.Since.IsZero() {
		t.Fatalf("%+v", h)
	}
	s.call(3*ms, errDown)
	s.call(4*ms, errDown)
	s.is(Up)
	s.call(5*ms, errDown)
	s.is(Down)
	retry := s.Health().Retry.Sub(start)
	if retry < 55*ms || retry > 105*ms {
		t.Fatalf("tried again at %v, want 50 to 100 ms later", retry)
	}
	s.refuses(retry - 1)
	p, err := s.Enter(at(retry))
	if err != nil {
		t.Fatal(err)
	}
	s.is(Probing)
	s.refuses(retry) // one at a time
	s.Leave(p, errDown, at(retry+ms))
	s.is(Down)
	second := s.Health().Retry.Sub(start) - retry - ms
	if second < 100*ms || second > 200*ms {
		t.Errorf("second rest of %v, want 100 to 200 ms", second)
	}
	now := retry + ms + second
	s.call(now, errDown)
	if third := s.Health().Retry.Sub(start) - now; third < 150*ms || third > 300*ms {
		t.Errorf("third rest of %v, want 150 to 300 ms: it is not longer than MaxRest", third)
	}
	if h := s.Health(); h.Downs != 1 || h.InARow != 5 || h.Refused != 2 || !h.Since.Equal(at(5*ms)) {
		t.Errorf("%+v, want down once, since 5 ms", h)
	}
	s.call(time.Second, nil)
	if h := s.Health(); h.State != Up || !h.Since.Equal(at(time.Second)) || !h.Retry.IsZero() || h.InARow != 0 {
		t.Errorf("%+v, want up since a second", h)
	}
	// It takes as many failures again, and the first rest.
	for range 2 {
		s.call(2*time.Second, errDown)
	}
	s.is(Up)
	s.call(2*time.Second, errDown)
	if rest := s.Health().Retry.Sub(at(2 * time.Second)); rest < 50*ms || rest > 100*ms {
		t.Errorf("rest of %v after it was up, want 50 to 100 ms", rest)
	}
}

// A call that began before a change tells nothing of after it.
func TestLate(t *testing.T) {
	s := tell(t, policy)
	late := make([]Pass, 9)
	for i := range late {
		late[i], _ = s.Enter(at(0))
	}
	for _, p := range late[:3] {
		s.Leave(p, errDown, at(50*ms))
	}
	s.is(Down)
	retry := s.Health().Retry
	s.Leave(late[3], nil, at(51*ms))
	s.Leave(late[4], errDown, at(52*ms))
	if h := s.Health(); h.State != Down || !h.Retry.Equal(retry) || h.InARow != 3 {
		t.Errorf("%+v: a late end changed it", h)
	}
	probe, err := s.Enter(retry)
	if err != nil {
		t.Fatal(err)
	}
	s.Leave(late[5], nil, retry)
	s.is(Probing)
	s.Leave(probe, nil, retry)
	for _, p := range late[6:] {
		s.Leave(p, errDown, retry)
	}
	s.is(Up)
	s.Leave(probe, errDown, retry)
	if h := s.Health(); h.InARow != 0 {
		t.Errorf("%+v: what began before it was up counts", h)
	}
}

// Processes that see the same failure do not come back at the same time.
func TestJitter(t *testing.T) {
	seen := map[time.Time]bool{}
	for range 100 {
		s := tell(t, policy)
		for range 3 {
			s.call(0, errDown)
		}
		seen[s.Health().Retry] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different times of 100", len(seen))
	}
}

func TestPolicy(t *testing.T) {
	for want, p := range map[string]Policy{
		"breaker: Failures must be positive, got -1":                     {Failures: -1},
		"breaker: Rest must be positive, got -1s":                        {Rest: -time.Second},
		"breaker: MaxRest must be at least Rest (200ms), got 1ms":        {MaxRest: ms},
		"breaker: MaxRest must be at least Rest (10s), got 9.999999999s": {Rest: 10 * time.Second, MaxRest: 10*time.Second - 1},
	} {
		if _, err := New(p); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	if got, want := (Policy{}).WithDefaults(), (Policy{5, 200 * ms, 5 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (Policy{Rest: time.Minute}).WithDefaults().MaxRest; got != time.Minute {
		t.Errorf("MaxRest %v of a Rest of a minute", got)
	}
}

func TestWords(t *testing.T) {
	var words []string
	for s := range State(4) {
		words = append(words, s.String())
	}
	if got := strings.Join(words, " "); got != "up down probing State(3)" {
		t.Error(got)
	}
}

func TestNoAllocation(t *testing.T) {
	s := tell(t, policy)
	if n := testing.AllocsPerRun(1000, func() { s.call(0, nil) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	for range 3 {
		s.call(0, errDown)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Enter(at(0)) }); n != 0 {
		t.Errorf("a refusal allocates %v times", n)
	}
}
