package report

import (
	"encoding/xml"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Ratio(196, 80, "ns"), "2.5 (196 ns)"},
		{Ratio(3.14159, 80, "ms"), "0.039 (3.1 ms)"},
		{Ratio(1_234_567, 100, "ns"), "12,346 (1,234,567 ns)"},
		{Times(1, 0), "–"},
		{Times(15, 1), "15"},
		{Figure(0, ""), "0"},
		{Group(-1234), "-1,234"},
		{Group(999), "999"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table([]string{"a", "b"}, [][]string{{"x", "1"}})
	if want := "| a | b |\n| --- | ---: |\n| x | 1 |\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A chart is well-formed, and a bar of twice the value is twice as long.
func TestChart(t *testing.T) {
	svg := Chart{Title: "a < b", Unit: "ns", Bars: []Bar{{Name: "x & y", Value: 2}, {Name: "z", Value: 1, Ours: true}, {Name: "none"}}}.SVG()
	d := xml.NewDecoder(strings.NewReader(svg))
	var widths []string
	for {
		token, err := d.Token()
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatal(err)
			}
			break
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				if a.Name.Local == "width" {
					widths = append(widths, a.Value)
				}
			}
		}
	}
	if got, want := strings.Join(widths, " "), "720 420.0 210.0 1.0"; got != want {
		t.Errorf("widths %s, want %s", got, want)
	}
}
