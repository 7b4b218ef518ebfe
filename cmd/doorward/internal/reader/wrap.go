package reader

import (
	"bytes"
	"encoding/json"
)

// unwrap takes a line out of what container runtimes put around it:
//
//	2026-01-24T01:34:36.743000000Z stdout F LINE
//	{"log":"LINE\n","stream":"stdout","time":"..."}
func (r *Reader) unwrap(line []byte) []byte {
	if bytes.HasPrefix(line, []byte(`{"log":"`)) {
		var j struct {
			Log string `json:"log"`
		}
		if json.Unmarshal(line, &j) != nil {
			return line
		}
		return bytes.TrimRight([]byte(j.Log), "\r\n")
	}
	if len(line) < 40 || line[4] != '-' || line[10] != 'T' {
		return line
	}
	i := max(0, bytes.IndexByte(line, ' '))
	for _, s := range []string{" stdout F ", " stderr F ", " stdout P ", " stderr P "} {
		if rest, ok := bytes.CutPrefix(line[i:], []byte(s)); ok {
			return rest
		}
	}
	return line
}
