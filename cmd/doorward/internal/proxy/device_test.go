package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
)

func devices(t testing.TB, name string) option {
	t.Helper()
	s, err := device.New(device.Config{Guard: name, Keys: [][]byte{bytes.Repeat([]byte("k"), 32)}})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Doors[0].Devices, c.Doors[0].DeviceCookie = s, "known" }
}

// TestDevice: while strangers have locked a subject, the device from which its owner
// has logged in before is let in. It has a budget of its own, and it is known for this
// subject only.
func TestDevice(t *testing.T) {
	addr, tries := loginApp(t)
	options := []option{behind(t), subjects(t, subject.Source{Form: "user"}), devices(t, "login"), rules(t,
		guard.Rule{Per: guard.Subject, Lockout: failures(20)}, guard.Rule{Per: guard.Device, Lockout: failures(3)},
	)}
	s := serve(t, addr, options...)
	login := func(network, user, pass, cookie string) *http.Response {
		t.Helper()
		if cookie != "" {
			cookie = "Cookie: a=b; known=" + cookie
			return s.via(network, "/login", "user="+user+"&pass="+pass, cookie)
		}
		return s.via(network, "/login", "user="+user+"&pass="+pass)
	}
	known := func(res *http.Response) string {
		for _, c := range res.Cookies() {
			if c.Name == "known" {
				return c.Value
			}
		}
		return ""
	}
	if res := login(network(1), "owner", "wrong", ""); known(res) != "" {
		t.Error("a failure makes a device known")
	}
	token := known(login(network(1), "Owner", "right", ""))
	other := known(login(network(2), "other", "right", ""))
	if token == "" || other == "" || token == other {
		t.Fatalf("tokens %q and %q", token, other)
	}
	// The failure before is given back to nobody: 19 more lock the subject.
	admitted := 0
	for i := range 40 {
		if login(network(100+i), "owner", "wrong", "").StatusCode == 200 {
			admitted++
		}
	}
	if admitted != 19 {
		t.Errorf("%d guesses of strangers admitted, want 19", admitted)
	}
	for _, row := range []struct {
		name, user, cookie string
		status             int
	}{
		{"no cookie", "owner", "", 429},
		{"another's cookie", "owner", other, 429},
		{"a forged cookie", "owner", token[:len(token)-1] + "!", 429},
		{"the owner's device", "owner", token, 302},
		{"the owner's device again", "+OWNER", other + "." + token, 302},
	} {
		if res := login(network(3), row.user, "right", row.cookie); res.StatusCode != row.status {
			t.Errorf("%s: status %d, want %d", row.name, res.StatusCode, row.status)
		}
	}
	// Whoever steals it has its budget, and no more.
	before := tries.Load()
	for range 10 {
		login(network(4), "owner", "wrong", token)
	}
	if n := tries.Load() - before; n != 3 {
		t.Errorf("%d guesses with a stolen token, want 3", n)
	}
	s.secret("owner")
	s.secret(token)

	// Another guard with the same keys does not know it.
	s = serve(t, addr, append(options, devices(t, "other"), rules(t,
		guard.Rule{Per: guard.Subject, Lockout: failures(1)}, guard.Rule{Per: guard.Device, Lockout: failures(3)}))...)
	login(network(5), "owner", "wrong", "")
	if res := login(network(3), "owner", "right", token); res.StatusCode != 429 {
		t.Errorf("at another guard: status %d, want 429", res.StatusCode)
	}
}

// TestStepUp: the application is asked for a stronger proof when the rule says so, and
// nobody else can ask.
func TestStepUp(t *testing.T) {
	addr := handle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var seen []string
		for name, values := range r.Header {
			if strings.Contains(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "step-up") {
				for _, v := range values {
					seen = append(seen, name+": "+v)
				}
			}
		}
		slices.Sort(seen)
		io.WriteString(w, strings.Join(seen, "; "))
	}))
	step := guard.Rule{Per: guard.Subject, Action: guard.StepUp, Lockout: failures(3)}
	s := serve(t, addr, behind(t), subjects(t, subject.Source{Form: "user"}), rules(t, step, guard.Rule{Lockout: failures(100)}))
	forged := []string{"Doorward-Step-Up: 0", "Doorward-Step-Up: 1", "doorward_step_up: 1", "Connection: Doorward-Step-Up"}
	for i := range 8 {
		for _, user := range []string{"alice", fmt.Sprint("other", i)} {
			want := ""
			if i >= 3 && user == "alice" {
				want = "Doorward-Step-Up: 1"
			}
			_, body := s.raw(request("POST", "/login", "user="+user, append(forged, formType, "X-Forwarded-For: "+network(i))...))
			if body != want {
				t.Errorf("attempt %d at %s: application saw %q, want %q", i, user, body, want)
			}
		}
	}
	if _, body := s.raw(request("POST", "/elsewhere", "user=alice", append(forged, formType)...)); body != "" {
		t.Errorf("elsewhere: application saw %q", body)
	}
}
