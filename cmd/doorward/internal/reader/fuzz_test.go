package reader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/doorward/doorward"
)

// FuzzLine reads anything as lines of every format: nothing is fatal, and what is emitted
// is whole.
func FuzzLine(f *testing.F) {
	names := Names()
	logs, err := filepath.Glob("testdata/crowdsec/*.log")
	if err != nil || len(logs) == 0 {
		f.Fatal("no logs", err)
	}
	for i, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for j := range names {
			if (i+j)%9 == 0 {
				f.Add(uint8(j), string(b[:min(len(b), 2000)]))
			}
		}
	}
	for _, s := range spots {
		for j, name := range names {
			if name == s.format {
				f.Add(uint8(j), s.line+"\n"+s.line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, log string) {
		name := names[int(format)%len(names)]
		o := Options{ModTime: asOf}
		if name == "pattern" {
			o.Pattern = spotPattern
		}
		surveyed, _ := read(t, name, log, o)
		r, err := New(name, o)
		if err != nil {
			t.Fatal(err)
		}
		streamed, _ := lines(r, log)
		if len(surveyed) != len(streamed) {
			t.Errorf("%d records after a survey, %d without", len(surveyed), len(streamed))
		}
		for i, rec := range surveyed {
			switch {
			case !rec.Addr.IsValid() || rec.Addr.Is4In6() || rec.Addr.Zone() != "":
				t.Errorf("record %d has the address %s", i, rec.Addr)
			case rec.Repeat < 1:
				t.Errorf("record %d counts %d times", i, rec.Repeat)
			case rec.Time.IsZero():
				t.Errorf("record %d has no time", i)
			case rec.HTTP && (rec.Outcome != doorward.Failed || rec.Service != "" && name != "pattern"):
				t.Errorf("record %d is a request and %s of %s", i, rec.Outcome, rec.Service)
			case !rec.HTTP && rec.Service == "" && name != "pattern":
				t.Errorf("record %d is of no service", i)
			}
		}
	})
}
