package reader

import (
	"bytes"

	"github.com/doorward/doorward"
)

// dovecot reads what Dovecot says in the system log. A login process tells at the end of a
// connection how many attempts failed on it; where no host has such lines, those of the
// authentication workers count, one each.
func (r *Reader) dovecot(line []byte, emit func(*Record)) Skip {
	m, skip := r.syslog(line)
	if skip != Read {
		return skip
	}
	if string(m.prog) != "dovecot" {
		return NotAttempt
	}
	r.own++
	r.rec.Time, r.rec.Service = m.time, "dovecot"
	process, text, ok := bytes.Cut(m.text, []byte(": "))
	if !ok {
		return NotAttempt
	}
	text = bytes.TrimPrefix(text, []byte("Info: "))
	switch {
	case bytes.HasSuffix(process, []byte("-login")) && bytes.IndexByte(process, '(') < 0:
		return r.dovecotLogin(text, m, emit)
	case string(process) == "auth", bytes.HasPrefix(process, []byte("auth-worker(")), bytes.HasPrefix(process, []byte("auth(")):
		return r.dovecotWorker(text, m, emit)
	}
	return NotAttempt
}

// dovecotLogin reads WHY (auth failed, N attempts ...): user=<NAME>, ..., rip=ADDRESS, lip=...
func (r *Reader) dovecotLogin(s []byte, m message, emit func(*Record)) Skip {
	why, fields, ok := bytes.Cut(s, []byte(": user=<"))
	if !ok {
		return NotAttempt
	}
	o := doorward.Succeeded
	if string(why) != "Login" {
		_, rest, ok := bytes.Cut(why, []byte("(auth failed, "))
		if !ok {
			return NotAttempt
		}
		count, _, _ := bytes.Cut(rest, space)
		n, ok := number(count)
		if !ok || n < 1 || len(count) > 6 {
			return CutOff
		}
		r.rec.Repeat, o = n, doorward.Failed
		r.held.saw(m.host)
	}
	// After the address comes nothing of the caller's.
	const key = ", rip="
	i := bytes.LastIndex(fields, []byte(key))
	if i < 0 {
		return CutOff
	}
	node, _, ok := bytes.Cut(fields[i+len(key):], []byte(", "))
	if !ok {
		return CutOff
	}
	if r.rec.Addr = parseNode(node); !r.rec.Addr.IsValid() {
		return NoAddress
	}
	name := fields[:i]
	if j := bytes.LastIndex(name, []byte(">")); j > 0 {
		r.rec.Subject = name[:j]
	}
	r.rec.Outcome = o
	return r.held.put(&r.rec, always, m.host, emit)
}

// dovecotWorker reads [conn ...: auth-worker<N>: ]DRIVER(NAME,ADDRESS[,<SESSION>]): WHY. The
// name may look like what follows it, and so may a password that is logged: where that
// leaves two addresses, nobody is named.
func (r *Reader) dovecotWorker(s []byte, m message, emit func(*Record)) Skip {
	if rest, ok := bytes.CutPrefix(s, []byte("conn unix:auth-worker (")); ok {
		_, rest, ok = bytes.Cut(rest, []byte("): auth-worker<"))
		_, rest, ok2 := bytes.Cut(rest, []byte(">: "))
		if !ok || !ok2 {
			return CutOff
		}
		s = rest
	}
	driver, rest, ok := bytes.Cut(s, []byte("("))
	if !ok || bytes.IndexByte(driver, ' ') >= 0 {
		return NotAttempt
	}
	skip := NotAttempt
	end := []byte("): ")
	for at, tries := 0, 0; ; at, tries = at+len(end), tries+1 {
		n := bytes.Index(rest[at:], end)
		if n < 0 {
			break
		}
		if tries == maxTries {
			return Ambiguous
		}
		at += n
		inner := rest[:at]
		if bytes.HasSuffix(inner, []byte(">")) {
			inner = inner[:max(0, bytes.LastIndex(inner, []byte(",<")))]
		}
		i := bytes.LastIndexByte(inner, ',')
		addr := parseNode(inner[i+1:])
		if i < 0 || !addr.IsValid() || skip == NotAttempt && !isWorkerFailure(rest[at+len(end):]) {
			continue
		}
		if skip == Read && addr != r.rec.Addr {
			return Ambiguous
		}
		if skip != Read {
			r.rec.Addr, r.rec.Subject, skip = addr, dash(inner[:i]), Read
		}
	}
	if skip != Read {
		return skip
	}
	r.rec.Outcome = doorward.Failed
	return r.held.put(&r.rec, ifHost, m.host, emit)
}

func isWorkerFailure(why []byte) bool {
	for _, w := range []string{"unknown user", "pam_authenticate() failed: Authentication failure", "Password mismatch", "invalid credentials"} {
		if bytes.HasPrefix(why, []byte(w)) {
			return true
		}
	}
	return false
}

// postfix reads what Postfix says in the system log of SASL: failures, and mail that came
// from who was logged in. The name of the host, which its owner chooses, has no bracket.
func (r *Reader) postfix(line []byte, emit func(*Record)) Skip {
	m, skip := r.syslog(line)
	if skip != Read {
		return skip
	}
	if !bytes.HasPrefix(m.prog, []byte("postfix")) || !bytes.HasSuffix(m.prog, []byte("smtpd")) {
		return NotAttempt
	}
	r.own++
	r.rec.Time = m.time
	if rest, ok := bytes.CutPrefix(m.text, []byte("warning: ")); ok {
		node, rest, ok := cutClient(rest)
		if !ok {
			return NotAttempt
		}
		rest, ok = bytes.CutPrefix(rest, []byte(": SASL "))
		if !ok {
			return NotAttempt
		}
		method, why, ok := bytes.Cut(rest, space)
		if !ok || len(method) == 0 || !bytes.HasPrefix(why, []byte("authentication failed")) {
			return NotAttempt
		}
		var name []byte
		if i := bytes.LastIndex(why, []byte(", sasl_username=")); i >= 0 {
			name = why[i+len(", sasl_username="):]
		}
		return r.attempt("postfix", doorward.Failed, node, name, emit)
	}
	// 4BWXYZ: client=host[192.0.2.1], sasl_method=PLAIN, sasl_username=name
	id, rest, ok := bytes.Cut(m.text, []byte(": client="))
	if !ok || bytes.IndexByte(id, ' ') >= 0 {
		return NotAttempt
	}
	node, rest, ok := cutClient(rest)
	if !ok || !bytes.HasPrefix(rest, []byte(", sasl_method=")) {
		return NotAttempt
	}
	var name []byte
	if _, after, ok := bytes.Cut(rest, []byte(", sasl_username=")); ok {
		name, _, _ = bytes.Cut(after, []byte(", "))
	}
	return r.attempt("postfix", doorward.Succeeded, node, name, emit)
}

// cutClient reads HOST[ADDRESS][:PORT].
func cutClient(s []byte) (node, rest []byte, ok bool) {
	host, rest, ok := bytes.Cut(s, []byte("["))
	if !ok || bytes.IndexByte(host, ' ') >= 0 {
		return nil, nil, false
	}
	node, rest, ok = bytes.Cut(rest, []byte("]"))
	if len(rest) > 1 && rest[0] == ':' && rest[1] != ' ' {
		i := 1
		for i < len(rest) && rest[i] >= '0' && rest[i] <= '9' {
			i++
		}
		rest = rest[i:]
	}
	return node, rest, ok
}
