package reader

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/doorward/doorward"
)

// sshd reads what OpenSSH says in the system log.
//
//   - "Failed METHOD for" is a failure, "Accepted METHOD for" a success; "message repeated N
//     times: [ ... ]" is N at its time.
//   - In a log without any Failed line, an "authentication failure" of sshd(pam_unix) is a
//     failure: systems of old had nothing else.
//   - On a host that logs no failures of passwords, the first line of a process that tells of
//     a caller who left before the login was done is a failure: Invalid user, Connection
//     closed by, Connection reset by, Disconnected from, or one with [preauth] that has an
//     address. After 600 seconds of silence, or for another address, it is another process of
//     that number. A key that fails is a failure there too, the first one the same.
//   - What PAM sums up is none: those were counted.
//
// Names come from the caller, so addresses are read from where no name can be.
type sshd struct {
	pids  pids
	peers peers
}

func (r *Reader) sshd(line []byte, emit func(*Record)) Skip {
	m, skip := r.syslog(line)
	if skip != Read {
		return skip
	}
	r.rec.Time = m.time
	switch string(m.prog) {
	case "sshd(pam_unix)":
		return r.pamOfOld(m, emit)
	case "sshd", "sshd-session", "sshd-auth":
	default:
		return NotAttempt
	}
	r.own++
	r.rec.Service = "sshd"
	text := bytes.TrimSpace(m.text)
	if rest, ok := bytes.CutPrefix(text, []byte("message repeated ")); ok {
		count, rest, _ := bytes.Cut(rest, []byte(" times: ["))
		n, ok := number(count)
		if !ok || n < 1 || len(count) > 6 || len(rest) == 0 {
			return CutOff
		}
		r.rec.Repeat = n
		text = bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("]")))
	}
	for _, level := range []string{"error: ", "fatal: "} {
		text = bytes.TrimPrefix(text, []byte(level))
	}
	text, preauth := bytes.CutSuffix(text, []byte(" [preauth]"))
	if rest, ok := bytes.CutPrefix(text, []byte("Failed ")); ok {
		return r.verdict(rest, doorward.Failed, m, emit)
	}
	if rest, ok := bytes.CutPrefix(text, []byte("Accepted ")); ok {
		return r.verdict(rest, doorward.Succeeded, m, emit)
	}
	return r.leaver(text, preauth, m, emit)
}

// verdict reads METHOD for [invalid user ]NAME from ADDRESS port PORT ssh2[: KEY].
func (r *Reader) verdict(s []byte, o doorward.Outcome, m message, emit func(*Record)) Skip {
	method, s, ok := bytes.Cut(s, []byte(" for "))
	if !ok || bytes.IndexByte(method, ' ') >= 0 || len(method) == 0 {
		return NotAttempt // "Failed to ..."
	}
	name, node, port, skip := callerOfVerdict(s)
	if skip != Read {
		return skip
	}
	keys := withoutPassword(method)
	if o == doorward.Failed {
		r.held.better = true
		if !keys {
			r.held.saw(m.host)
		}
	}
	if r.rec.Addr = parseNode(node); !r.rec.Addr.IsValid() {
		return NoAddress
	}
	when := always
	if o == doorward.Succeeded {
		r.ssh.peers.add(r.rec.Addr, port)
		r.ssh.pids.settle(m, r.rec.Addr)
	} else if keys && r.ssh.pids.settle(m, r.rec.Addr) {
		when = unlessHost // where leavers count, this one did
	}
	r.rec.Outcome = o
	r.rec.Subject = withoutInvalid(name)
	return r.held.put(&r.rec, when, m.host, emit)
}

// withoutPassword reports whether a method takes no password: that it fails does not say
// that the host would log one that is wrong.
func withoutPassword(method []byte) bool {
	return string(method) == "publickey" || string(method) == "hostbased" || string(method) == "none" || bytes.HasPrefix(method, []byte("gssapi"))
}

func withoutInvalid(name []byte) []byte {
	for _, p := range []string{"invalid user ", "illegal user "} {
		if rest, ok := bytes.CutPrefix(name, []byte(p)); ok {
			name = rest
			break
		}
	}
	if len(name) == 0 {
		return nil
	}
	return name
}

// callerOfVerdict finds the one " from ADDRESS port PORT ssh2" that sshd wrote. A name before
// it can look the same, and so can the identity in a certificate after it.
func callerOfVerdict(s []byte) (name, node, port []byte, skip Skip) {
	skip = CutOff
	from := []byte(" from ")
	for i, tries := len(s), 0; ; tries++ {
		i = bytes.LastIndex(s[:i], from)
		if i < 0 {
			return name, node, port, skip
		}
		if tries == maxTries {
			return nil, nil, nil, Ambiguous
		}
		n, p, tail, ok := cutPeer(s[i+len(from):])
		if !ok || !isKeyInfo(tail) {
			continue
		}
		if skip == Read && string(n) != string(node) {
			return nil, nil, nil, Ambiguous
		}
		name, node, port, skip = s[:i], n, p, Read
		if len(tail) == 0 {
			return name, node, port, Read // nothing that a caller sends ends a line so
		}
	}
}

// cutPeer reads ADDRESS port PORT ssh2.
func cutPeer(s []byte) (node, port, tail []byte, ok bool) {
	node, s, ok = bytes.Cut(s, []byte(" port "))
	if !ok || bytes.IndexByte(node, ' ') >= 0 {
		return nil, nil, nil, false
	}
	i := bytes.IndexByte(s, ' ')
	if i < 0 {
		return nil, nil, nil, false
	}
	if _, ok := number(s[:i]); !ok {
		return nil, nil, nil, false
	}
	for _, version := range []string{" ssh2", " ssh1", " ssh"} {
		if tail, ok := bytes.CutPrefix(s[i:], []byte(version)); ok {
			return node, s[:i], tail, true
		}
	}
	return nil, nil, nil, false
}

// isKeyInfo reports whether s can be what sshd writes behind ssh2: nothing, or a key, or
// a certificate, or who came from where by the word of another host.
func isKeyInfo(s []byte) bool {
	if len(s) == 0 {
		return true
	}
	s, ok := bytes.CutPrefix(s, []byte(": "))
	if !ok {
		return false
	}
	words := bytes.Split(s, space)
	last := words[len(words)-1]
	switch {
	case len(words) == 2: // RSA SHA256:...
		return true
	case len(words) > 2 && string(words[2]) == "ID":
		return len(words) > 5 && bytes.Contains(s, []byte(" (serial ")) && bytes.Contains(s, []byte(") CA ")) && isFingerprint(last)
	case string(words[0]) == "client":
		return bytes.HasSuffix(last, []byte(`"`))
	}
	return len(words) == 1
}

func isFingerprint(s []byte) bool { return bytes.IndexByte(s, ':') > 0 }

// leaver reads a line of a caller who left before the login was done.
func (r *Reader) leaver(text []byte, preauth bool, m message, emit func(*Record)) Skip {
	if met, known := r.held.known(ifHost, m.host); known && !met {
		return NotAttempt
	}
	name, node, port, counts := peerOfLeaver(text)
	if !counts && !preauth || len(node) == 0 {
		if m.pid != nil {
			r.ssh.pids.touch(m)
		}
		return NotAttempt
	}
	if string(node) == string(several) {
		return Ambiguous
	}
	addr := parseNode(node)
	if !addr.IsValid() {
		return NoAddress
	}
	if !preauth && r.ssh.peers.has(addr, port) {
		return NotAttempt // a session that ended
	}
	if !r.ssh.pids.first(m, addr) {
		return NotAttempt
	}
	r.rec.Addr = addr
	r.rec.Subject = withoutInvalid(name)
	r.rec.Outcome = doorward.Failed
	r.rec.Repeat = 1
	return r.held.put(&r.rec, ifHost, m.host, emit)
}

// peerOfLeaver finds name and address in the lines that leavers leave. counts says that
// the line counts without [preauth] too.
func peerOfLeaver(s []byte) (name, node, port []byte, counts bool) {
	for _, p := range []string{"Connection closed by ", "Connection reset by ", "Disconnected from "} {
		if rest, ok := bytes.CutPrefix(s, []byte(p)); ok {
			name, node, port = nodeAtEnd(rest, "")
			if bytes.HasPrefix(name, []byte("user ")) {
				return nil, nil, nil, false // who was logged in
			}
			return afterUser(name), node, port, true
		}
	}
	for _, p := range []string{"Invalid user ", "Illegal user "} {
		if rest, ok := bytes.CutPrefix(s, []byte(p)); ok {
			name, node, port = nodeAtEnd(rest, "from")
			return name, node, port, true
		}
	}
	if rest, ok := bytes.CutPrefix(s, []byte("maximum authentication attempts exceeded for ")); ok {
		if rest, ok = bytes.CutSuffix(rest, []byte(" ssh2")); ok {
			name, node, port = nodeAtEnd(rest, "from")
		}
		return name, node, port, false
	}
	if rest, ok := bytes.CutPrefix(s, []byte("Disconnecting ")); ok {
		if end, ok := bytes.CutSuffix(rest, []byte(": Too many authentication failures")); ok {
			name, node, port = nodeAtEnd(end, "")
			return afterUser(name), node, port, false
		}
		name, node, port = nodeInside(rest)
		return afterUser(name), node, port, false
	}
	for _, p := range []string{"Received disconnect from ", "Unable to negotiate with ", "ssh_dispatch_run_fatal: Connection from ", "banner exchange: Connection from "} {
		if rest, ok := bytes.CutPrefix(s, []byte(p)); ok {
			name, node, port = nodeInside(rest)
			return afterUser(name), node, port, false
		}
	}
	return nil, nil, nil, false
}

// several stands for an address where what the caller sent leaves two possible.
var several = []byte("several addresses")

// nodeInside reads ADDRESS[ port PORT]: REASON, and WHO ADDRESS port PORT: REASON, where
// names in WHO and reasons may hold what looks the same.
func nodeInside(s []byte) (name, node, port []byte) {
	first, _, _ := bytes.Cut(s, space)
	if first = bytes.TrimSuffix(first, []byte(":")); parseNode(first).IsValid() {
		return nil, first, nil
	}
	for i, tries := 0, 0; ; tries++ {
		n := bytes.Index(s[i:], []byte(" port "))
		if n < 0 {
			return name, node, port
		}
		end := i + n
		i = end + len(" port ")
		digits, _, ok := bytes.Cut(s[i:], []byte(":"))
		start := bytes.LastIndexByte(s[:end], ' ') + 1
		if _, isNumber := number(digits); !ok || !isNumber {
			continue
		}
		switch at := s[start:end]; {
		case node == nil:
			if name, node, port = s[:max(start-1, 0)], at, digits; !parseNode(at).IsValid() {
				return nil, node, nil
			}
		case tries > maxTries || parseNode(at).IsValid() && string(node) != string(at):
			return nil, several, nil
		}
	}
}

// afterUser returns the name in "authenticating user NAME", or nil.
func afterUser(s []byte) []byte {
	if _, name, ok := bytes.Cut(s, []byte(" user ")); ok {
		return name
	}
	return nil
}

// nodeAtEnd reads [NAME ][word ]ADDRESS[ port PORT] from the end.
func nodeAtEnd(s []byte, word string) (name, node, port []byte) {
	if i := bytes.LastIndex(s, []byte(" port ")); i >= 0 {
		if _, ok := number(s[i+6:]); ok {
			s, port = s[:i], s[i+6:]
		}
	}
	i := bytes.LastIndexByte(s, ' ')
	name, node = s[:max(i, 0)], s[i+1:]
	if word != "" {
		var ok bool
		if name, ok = bytes.CutSuffix(s[:max(i+1, 0)], []byte(word+" ")); !ok {
			return nil, nil, nil
		}
		name = bytes.TrimSuffix(name, space)
	}
	return name, node, port
}

// pamOfOld reads lines of sshd(pam_unix).
func (r *Reader) pamOfOld(m message, emit func(*Record)) Skip {
	rest, ok := bytes.CutPrefix(m.text, []byte("authentication failure; "))
	if !ok {
		return NotAttempt
	}
	r.own++
	r.rec.Service = "sshd"
	r.held.saw(m.host)
	// logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.1  user=root: only the last is the
	// caller's, and it comes last.
	_, rest, ok = bytes.Cut(rest, []byte(" rhost="))
	if !ok {
		return CutOff
	}
	node, rest, _ := bytes.Cut(rest, space)
	if r.rec.Addr = parseNode(node); !r.rec.Addr.IsValid() {
		return NoAddress
	}
	if name, ok := bytes.CutPrefix(bytes.TrimLeft(rest, " "), []byte("user=")); ok {
		r.rec.Subject = dash(bytes.TrimRight(name, " "))
	}
	r.rec.Outcome = doorward.Failed
	return r.held.put(&r.rec, ifLog, m.host, emit)
}

// silence ends what is known of a process: its number may be another's by then.
const silence = 600 * time.Second

// pids remembers which processes were counted, those that spoke last.
type pids struct {
	now, before map[string]process // two generations: the older is forgotten as a whole
}

type process struct {
	spoke time.Time
	addr  netip.Addr
	left  bool // counted as one that left, and for nothing else so far
}

const maxPids = 1 << 15

func (p *pids) key(m message) string { return string(m.host) + " " + string(m.pid) }

func (p *pids) get(key string, now time.Time) (process, bool) {
	s, ok := p.now[key]
	if !ok {
		s, ok = p.before[key]
	}
	return s, ok && now.Sub(s.spoke) <= silence
}

func (p *pids) put(key string, s process) {
	if p.now == nil || len(p.now) >= maxPids {
		p.now, p.before = map[string]process{}, p.now
	}
	p.now[key] = s
}

// touch notes that a process spoke.
func (p *pids) touch(m message) {
	key := p.key(m)
	if s, ok := p.get(key, m.time); ok {
		s.spoke = m.time
		p.put(key, s)
	}
}

// first reports whether a process that spoke of addr had not been counted.
func (p *pids) first(m message, addr netip.Addr) bool {
	if m.pid == nil {
		return true
	}
	key := p.key(m)
	s, ok := p.get(key, m.time)
	counted := ok && s.addr == addr
	p.put(key, process{m.time, addr, !counted || s.left})
	return !counted
}

// settle notes that a process has let its caller in, or not, and reports whether it was
// counted before as one that left.
func (p *pids) settle(m message, addr netip.Addr) (left bool) {
	if m.pid == nil {
		return false
	}
	key := p.key(m)
	s, ok := p.get(key, m.time)
	p.put(key, process{spoke: m.time, addr: addr})
	return ok && s.addr == addr && s.left
}

// peers remembers who was let in, by address and port: those of late.
type peers struct{ now, before map[netip.AddrPort]bool }

func (p *peers) peer(addr netip.Addr, port []byte) (netip.AddrPort, bool) {
	n, ok := number(port)
	return netip.AddrPortFrom(addr, uint16(n)), ok && n < 1<<16
}

func (p *peers) add(addr netip.Addr, port []byte) {
	peer, ok := p.peer(addr, port)
	if !ok {
		return
	}
	if p.now == nil || len(p.now) >= maxPids {
		p.now, p.before = map[netip.AddrPort]bool{}, p.now
	}
	p.now[peer] = true
}

func (p *peers) has(addr netip.Addr, port []byte) bool {
	peer, ok := p.peer(addr, port)
	return ok && (p.now[peer] || p.before[peer])
}
