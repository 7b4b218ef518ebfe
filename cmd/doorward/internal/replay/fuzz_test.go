package replay

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/guard"
)

// Whatever a log holds, a replay ends, its totals add up, and its reports can be written.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(text(try{0, "192.0.2.1", 200}, try{9, "192.0.2.1", 302}, try{5, "2001:db8::1", 503})), uint8(0))
	f.Add([]byte("Mar  1 08:00:01 host sshd[1]: Failed password for root from 192.0.2.66 port 40022 ssh2\n"), uint8(1))
	f.Add([]byte("Mar  1 08:00:01 host sshd[1]: message repeated 3 times: [ Failed password for root from 192.0.2.66 port 40022 ssh2]\n"), uint8(2))
	f.Add([]byte(`{"level":"info","ts":1772438400.1,"request":{"remote_ip":"192.0.2.1","method":"POST","host":"a","uri":"/login"},"status":200}`), uint8(3))
	f.Add([]byte("\x1f\x8bnothing"), uint8(0))
	f.Fuzz(func(t *testing.T, log []byte, how uint8) {
		p := at(config.DefaultRules()...)
		if how&1 != 0 {
			p = at(network(strict), guard.Rule{Per: guard.Pair, Lockout: &usual})
		}
		p.Guards[0].Config.Rules = tiny(p.Guards[0].Config.Rules)
		r, err := New(Options{Reorder: time.Duration(how) * time.Second, Suggest: true, Alone: how&2 != 0}, p)
		if err != nil {
			t.Fatal(err)
		}
		fault := r.Run(Log{"log", bytes.NewReader(log), begin})
		report := r.Report()
		if report.Suggested, err = r.Suggest(Grid()[:3], nil); err != nil && int(report.Keys) == len(r.callers.all)-1 {
			t.Fatalf("%v, with %v", err, fault)
		}
		sum := report.AdmittedFailed + report.RefusedFailed + report.AdmittedSucceeded + report.RefusedSucceeded + report.AdmittedVoid + report.RefusedVoid
		if sum != report.Attempts || report.KeysLocked > report.Keys || report.HonestRefused > report.Honest || report.Keys > report.Attempts {
			t.Fatalf("%+v", report.Totals)
		}
		var b strings.Builder
		if err := report.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		for _, c := range []byte(b.String()) {
			if c < ' ' && c != '\n' || c >= 0x7f {
				t.Fatalf("the report has the byte %#x:\n%q", c, b.String())
			}
		}
		if err := report.WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Fatal(err)
		}
	})
}

// tiny returns rules with room for few keys, so that a run takes little time.
func tiny(rules []guard.Rule) (all []guard.Rule) {
	for _, r := range rules {
		p := *r.Lockout
		p.Capacity = 4
		r.Lockout = &p
		all = append(all, r)
	}
	return all
}
