package guard_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
)

// G13: every preset has network and wider-network rules, and all lockouts decay but
// those of pairs, challenges and devices.
func TestPresets(t *testing.T) {
	for name, c := range guard.Presets() {
		g, err := guard.New(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		widths := map[[2]int]bool{}
		for _, r := range g.Rules() {
			if r.Per == guard.Network {
				widths[[2]int{r.V4, r.V6}] = true
			}
			own := r.Per == guard.Pair || r.Per == guard.Challenge || r.Per == guard.Device
			if r.Lockout != nil && r.Lockout.Decay == own {
				t.Errorf("%s: rule %s: decay is %t", name, r.Name, r.Lockout.Decay)
			}
		}
		for _, w := range [][2]int{{32, 64}, {24, -1}, {-1, 48}, {-1, 32}} {
			if !widths[w] {
				t.Errorf("%s: no rule for %v", name, w)
			}
		}
		if v4, v6 := g.Families(); !v4 || !v6 {
			t.Errorf("%s: limits IPv4 %t, IPv6 %t", name, v4, v6)
		}
	}
}

// A preset may be edited without changing it for others.
func TestPresetsAreCopied(t *testing.T) {
	g, err := guard.New(guard.Login)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range g.Rules() {
		if r.Lockout == guard.Login.Rules[i].Lockout {
			t.Errorf("rule %s shares its policy with the preset", r.Name)
		}
	}
}

type event struct {
	at      time.Duration
	who     guard.Request
	outcome doorward.Outcome
	name    string
}

// An office of 300 behind one address, 5 % typos of which nearly all are corrected at
// once, and one device that retries an old password every minute: for a week nothing
// is refused but that device.
func TestOffice(t *testing.T) {
	s := tell(t, guard.Login)
	rnd := rand.New(rand.NewPCG(1, 2))
	const address = "192.0.2.1"
	var week []event
	for day := range 7 {
		for person := range 300 {
			who := s.on(address, fmt.Sprint("person ", person))
			for range 4 {
				when := time.Duration(day)*24*time.Hour + 8*time.Hour + time.Duration(rnd.Int64N(int64(9*time.Hour)))
				if rnd.IntN(100) < 5 {
					week = append(week, event{when, who, doorward.Failed, "typo"})
					if rnd.IntN(100) < 3 {
						continue // gives up
					}
					when += 3*time.Second + time.Duration(rnd.Int64N(int64(12*time.Second)))
				}
				week = append(week, event{when, who, doorward.Succeeded, "right"})
			}
		}
		for minute := range 24 * 60 {
			when := time.Duration(day)*24*time.Hour + time.Duration(minute)*time.Minute
			week = append(week, event{when, s.on(address, "old device"), doorward.Failed, "device"})
		}
	}
	slices.SortStableFunc(week, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	refused := map[string]int{}
	for _, e := range week {
		p := s.Attempt(e.who, start.Add(e.at))
		if !p.Allowed {
			refused[e.name+" by "+p.Rule]++
		}
		p.Settle(e.outcome, start.Add(e.at))
	}
	if keys := slices.Sorted(maps.Keys(refused)); len(keys) != 1 || keys[0] != "device by pair" {
		t.Errorf("refused: %v, want the device by its pair only", refused)
	}
	t.Logf("%d events, refused %v", len(week), refused)
}

// One failure an hour on average, however it is spaced, from one /64 never locks its
// /48 nor a subject.
func TestOneFailureAnHour(t *testing.T) {
	for burst := 1; burst <= 240; burst += 7 {
		s := tell(t, guard.Login)
		attacker := s.on("2001:db8:1:1::1", "alice")
		for hour := 0; hour < 24*30; hour += burst {
			when := start.Add(time.Duration(hour) * time.Hour)
			for range burst {
				p := s.Attempt(attacker, when)
				p.Settle(doorward.Failed, when)
				when = when.Add(time.Second)
			}
			for _, neighbour := range []guard.Request{
				s.on("2001:db8:1:2::1", "bob"), // of the /48
				s.on("198.51.100.1", "alice"),  // of the subject
			} {
				if v := s.Check(neighbour, when); !v.Allowed {
					t.Fatalf("bursts of %d: hour %d: a neighbour is refused by %s", burst, hour, v.Rule)
				}
			}
		}
	}
}

// G12: one /48, /32 or /24 cannot exhaust the ceiling for everyone.
func TestOneSiteAndTheCeiling(t *testing.T) {
	for name, site := range map[string]string{"/48": "2001:db8:1:%x::1", "/32": "2001:db8:%x::1", "/24": "192.0.2.%d"} {
		testOneSite(t, "pairing from a "+name, guard.Pairing, site)
		testOneSite(t, "recovery from a "+name, guard.Recovery, site)
	}
}

func testOneSite(t *testing.T, name string, c guard.Config, site string) {
	t.Helper()
	s := tell(t, c)
	for hour := range 48 {
		for i := range 512 {
			now := start.Add(time.Duration(hour)*time.Hour + time.Duration(i)*time.Second)
			a := netip.MustParseAddr(fmt.Sprintf(site, i%256))
			p := s.Attempt(guard.Request{Addr: a}, now)
			p.Settle(doorward.Failed, now)
			if i%100 == 0 {
				if v := s.Check(from("198.51.100.1"), now); !v.Allowed {
					t.Fatalf("%s: a stranger is refused by %s after hour %d", name, v.Rule, hour)
				}
			}
		}
	}
}

// The names that configuration files use are those of the values.
func TestPresetNames(t *testing.T) {
	want := []string{"device_code", "device_start", "login", "one_time_code", "pairing", "password_reset", "pushed_authorization", "recovery", "signup"}
	if got := slices.Sorted(maps.Keys(guard.Presets())); !slices.Equal(got, want) {
		t.Errorf("presets %v, want %v", got, want)
	}
}
