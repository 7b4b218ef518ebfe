package reader

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// caddy reads Caddy's access log in JSON. The address is client_ip, which is what Caddy
// makes of headers of the proxies that it trusts; before it had that, the peer.
func (r *Reader) caddy(line []byte, emit func(*Record)) Skip {
	var j struct {
		Time    json.RawMessage `json:"ts"`
		Logger  string          `json:"logger"`
		Status  int             `json:"status"`
		User    string          `json:"user_id"`
		Request *struct {
			Client  string `json:"client_ip"`
			Remote  string `json:"remote_ip"`
			Old     string `json:"remote_addr"`
			Method  string `json:"method"`
			Host    string `json:"host"`
			URI     string `json:"uri"`
			Headers struct {
				Agent []string `json:"User-Agent"`
			} `json:"headers"`
		} `json:"request"`
		Answer struct {
			Location []string `json:"Location"`
		} `json:"resp_headers"`
	}
	if json.Unmarshal(line, &j) != nil {
		return jsonSkip(line)
	}
	if j.Request == nil || j.Logger != "" && !strings.HasPrefix(j.Logger, "http.log.access") {
		return NotAttempt // others tell of requests too
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.timeOfJSON(j.Time); !ok {
		return NoTime
	}
	q := j.Request
	node := q.Client
	if node == "" {
		node = q.Remote
	}
	if node == "" {
		node = q.Old
	}
	if rec.Addr = parseNode([]byte(node)); !rec.Addr.IsValid() {
		return NoAddress
	}
	rec.HTTP = true
	rec.Subject, rec.Method, rec.Host, rec.Target = text(j.User), text(q.Method), text(q.Host), text(q.URI)
	rec.Status = j.Status
	if len(q.Headers.Agent) > 0 {
		rec.UserAgent = text(q.Headers.Agent[0])
	}
	if len(j.Answer.Location) > 0 {
		rec.Location = text(j.Answer.Location[0])
	}
	emit(rec)
	return Read
}

// text returns s, or nil for what stands for nothing.
func text(s string) []byte { return dash([]byte(s)) }

// timeOfJSON reads a time: seconds, milliseconds or nanoseconds since 1970, or text.
func (r *Reader) timeOfJSON(s json.RawMessage) (time.Time, bool) {
	if len(s) > 1 && s[0] == '"' {
		return r.parseTime(s[1 : len(s)-1])
	}
	return unixTime(s)
}

func unixTime(s []byte) (time.Time, bool) {
	whole, frac, _ := bytes.Cut(s, []byte("."))
	n, ok := number(whole)
	switch {
	case !ok || len(whole) > 19:
		return time.Time{}, false
	case len(whole) > 16:
		return time.Unix(0, int64(n)).UTC(), true
	case len(whole) > 13:
		return time.UnixMicro(int64(n)).UTC(), true
	case len(whole) > 10:
		return time.UnixMilli(int64(n)).UTC(), true
	}
	nano, rest := fraction(frac)
	if len(rest) > 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(n), int64(nano)).UTC(), true
}

// traefik reads Traefik's access log, in JSON or in its form of the common log.
func (r *Reader) traefik(line []byte, emit func(*Record)) Skip {
	if line[0] != '{' {
		return r.traefikCommon(line, emit)
	}
	var j struct {
		Time     string `json:"time"`
		Start    string `json:"StartUTC"`
		Client   string `json:"ClientHost"`
		User     string `json:"ClientUsername"`
		Method   string `json:"RequestMethod"`
		Host     string `json:"RequestHost"`
		Path     string `json:"RequestPath"`
		Status   int    `json:"DownstreamStatus"`
		Agent    string `json:"request_User-Agent"`
		Location string `json:"downstream_Location"`
	}
	if json.Unmarshal(line, &j) != nil {
		return jsonSkip(line)
	}
	if j.Method == "" && j.Path == "" {
		return NotAttempt
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.parseTime([]byte(j.Time)); !ok {
		if rec.Time, ok = r.parseTime([]byte(j.Start)); !ok {
			return NoTime
		}
	}
	if rec.Addr = lastNode([]byte(j.Client)); !rec.Addr.IsValid() {
		return NoAddress
	}
	rec.HTTP = true
	rec.Subject, rec.Method, rec.Host, rec.Target = text(j.User), text(j.Method), text(j.Host), text(j.Path)
	rec.Status, rec.UserAgent, rec.Location = j.Status, text(j.Agent), text(j.Location)
	emit(rec)
	return Read
}

// lastNode returns the last address of a list. Of X-Forwarded-For, which Traefik logs
// for the address where it trusts the peer, it is what the peer saw; the others are
// what its client said.
func lastNode(s []byte) netip.Addr {
	return parseNode(bytes.TrimSpace(s[bytes.LastIndexByte(s, ',')+1:]))
}

// traefikCommon reads
//
//	address - user [time] "METHOD TARGET PROTOCOL" status bytes "referer" "agent" number "router" "server" 0ms
//
// The user is not escaped at all and the target only has no spaces, so the time is the
// last that stands before a quote.
func (r *Reader) traefikCommon(line []byte, emit func(*Record)) Skip {
	if !bytes.HasSuffix(line, []byte("ms")) {
		return unfinished(line)
	}
	i := bytes.LastIndex(line, []byte(`] "`))
	if i < 0 {
		return Unreadable
	}
	open := bytes.LastIndexByte(line[:i], '[')
	if open < 1 || line[open-1] != ' ' {
		return Unreadable
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.clf.time(line[open+1 : i]); !ok {
		return NoTime
	}
	// A list of addresses and a user, both of which may hold a dash.
	head := line[:open-1]
	for at, tries := 0, 0; ; tries++ {
		n := bytes.Index(head[at:], []byte(" - "))
		if n < 0 {
			break
		}
		if tries == maxTries {
			return Ambiguous
		}
		at += n
		if addr := lastNode(head[:at]); addr.IsValid() {
			if rec.Addr.IsValid() && rec.Addr != addr {
				return Ambiguous
			}
			if !rec.Addr.IsValid() {
				rec.Subject = dash(head[at+3:])
			}
			rec.Addr = addr
		}
		at += 2
	}
	if !rec.Addr.IsValid() {
		return NoAddress
	}
	// METHOD TARGET PROTOCOL" STATUS BYTES "REFERER" "AGENT": the target may hold quotes.
	fields := bytes.SplitN(line[i+3:], space, 6)
	if len(fields) < 6 {
		return CutOff
	}
	if rec.Status, ok = parseStatus(fields[3]); !ok {
		return CutOff
	}
	rec.HTTP = true
	rec.Method, rec.Target = fields[0], fields[1]
	if _, rest, ok := cutQuoted(fields[5]); ok {
		if agent, _, ok := cutQuoted(bytes.TrimPrefix(rest, space)); ok {
			rec.UserAgent = unquote(dash(agent))
		}
	}
	emit(rec)
	return Read
}

// envoy reads Envoy's access log in JSON, with the names of Envoy Gateway or Istio. The
// address is that of the peer as Envoy takes it, by its own rules for trusted proxies.
// Lines in Envoy's default text form have but X-Forwarded-For, which callers write.
func (r *Reader) envoy(line []byte, emit func(*Record)) Skip {
	if line[0] == '[' {
		return NoAddress
	}
	var j struct {
		Time   string `json:"start_time"`
		Peer   string `json:"downstream_remote_address"`
		Method string `json:"method"`
		Host   string `json:":authority"`
		Host2  string `json:"authority"`
		Origin string `json:"x-envoy-origin-path"`
		Path   string `json:"path"`
		Status int    `json:"response_code"`
		Agent  string `json:"user-agent"`
		Agent2 string `json:"user_agent"`
	}
	if json.Unmarshal(line, &j) != nil {
		return jsonSkip(line)
	}
	if j.Method == "" && j.Peer == "" {
		return NotAttempt
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.parseTime([]byte(j.Time)); !ok {
		return NoTime
	}
	if rec.Addr = parseNode([]byte(j.Peer)); !rec.Addr.IsValid() {
		return NoAddress
	}
	rec.HTTP = true
	rec.Method, rec.Status = text(j.Method), j.Status
	rec.Host, rec.Target, rec.UserAgent = either(j.Host, j.Host2), either(j.Origin, j.Path), either(j.Agent, j.Agent2)
	emit(rec)
	return Read
}

func either(a, b string) []byte {
	if t := text(a); t != nil {
		return t
	}
	return text(b)
}

// haproxy reads HAProxy's HTTP log:
//
//	address:port [time] frontend backend/server 0/0/0/1/1 status bytes - - ---- 1/1/0/0/0 0/0 {...} "METHOD TARGET PROTOCOL"
//
// It escapes quotes and braces in what it captures.
func (r *Reader) haproxy(line []byte, emit func(*Record)) Skip {
	line = cutSyslog(line)
	node, rest, _ := bytes.Cut(line, space)
	stamp, rest, ok := bytes.Cut(rest, []byte("] "))
	if !ok || len(stamp) == 0 || stamp[0] != '[' {
		return unfinished(line)
	}
	rec := &r.rec
	if rec.Time, ok = r.haproxyTime(stamp[1:]); !ok {
		return NoTime
	}
	if rec.Addr = parseNode(node); !rec.Addr.IsValid() {
		return NoAddress
	}
	fields := bytes.SplitN(rest, space, 6)
	if bytes.HasSuffix(fields[0], []byte(":")) {
		return NotAttempt // of a connection: "SSL handshake failure"
	}
	if len(fields) < 6 {
		return CutOff
	}
	if string(fields[3]) != "-1" {
		if rec.Status, ok = parseStatus(fields[3]); !ok {
			return NotAttempt // of a TCP frontend
		}
	}
	i := bytes.IndexByte(fields[5], '"')
	if i < 0 {
		return CutOff
	}
	request := bytes.TrimSuffix(fields[5][i+1:], []byte(`"`))
	rec.HTTP = true
	rec.Method, rec.Target = r.splitRequest(request)
	emit(rec)
	return Read
}

// haproxyTime reads 14/Jan/2015:12:48:57.127.
func (r *Reader) haproxyTime(s []byte) (time.Time, bool) {
	if len(s) != 24 || s[2] != '/' || s[6] != '/' || s[11] != ':' || s[20] != '.' {
		return time.Time{}, false
	}
	day, ok1 := number(s[:2])
	month := monthOf(s[3:6])
	year, ok2 := number(s[7:11])
	hour, minute, second, ok3 := clockOf(s[12:20])
	milli, ok4 := number(s[21:])
	if !ok1 || !ok2 || !ok3 || !ok4 || month == 0 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, milli*int(time.Millisecond), r.zone)
	return t.UTC(), t.Day() == day
}

// alb reads the access log of an AWS Application Load Balancer. The time is that at
// which the request came. A quote that a caller smuggled in would shift what follows it, so
// the number of fields is held.
func (r *Reader) alb(line []byte, emit func(*Record)) Skip {
	var fields [33][]byte
	n := 0
	for rest := line; len(rest) > 0; n++ {
		if n == len(fields) {
			return Unreadable
		}
		var ok bool
		if rest[0] == '"' {
			if fields[n], rest, ok = cutQuoted(rest); !ok || len(rest) > 0 && rest[0] != ' ' {
				return CutOff
			}
			rest = bytes.TrimPrefix(rest, space)
		} else {
			fields[n], rest, _ = bytes.Cut(rest, space)
		}
	}
	if n < 29 {
		if n > 4 && parseNode(fields[3]).IsValid() {
			return CutOff
		}
		return Unreadable
	}
	rec := &r.rec
	var ok bool
	if rec.Time, ok = r.parseTime(fields[21]); !ok {
		return NoTime
	}
	if rec.Addr = parseNode(fields[3]); !rec.Addr.IsValid() {
		return NoAddress
	}
	if rec.Status, ok = parseStatus(fields[8]); !ok {
		return Unreadable
	}
	rec.HTTP = true
	rec.Method, rec.Target = r.splitRequest(fields[12])
	rec.UserAgent = dash(fields[13])
	rec.Location = dash(fields[23])
	emit(rec)
	return Read
}

// unquote undoes what Go's %q does.
func unquote(s []byte) []byte {
	if bytes.IndexByte(s, '\\') < 0 {
		return s
	}
	t, err := strconv.Unquote(`"` + string(s) + `"`)
	if err != nil {
		return s
	}
	return []byte(t)
}
