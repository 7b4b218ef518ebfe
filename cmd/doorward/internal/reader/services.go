package reader

import (
	"bytes"
	"encoding/json"

	"github.com/doorward/doorward"
)

// attempt completes the Record of a service's own word and emits it.
func (r *Reader) attempt(service string, o doorward.Outcome, node, subject []byte, emit func(*Record)) Skip {
	r.rec.Service, r.rec.Outcome = service, o
	if r.rec.Addr = parseNode(node); !r.rec.Addr.IsValid() {
		return NoAddress
	}
	if len(subject) > 0 {
		r.rec.Subject = subject
	}
	emit(&r.rec)
	return Read
}

// vaultwarden reads [TIME][MODULE][LEVEL] MESSAGE. Its messages name the address before the
// user, except where a login went well, which takes a user that exists.
func (r *Reader) vaultwarden(line []byte, emit func(*Record)) Skip {
	if line[0] != '[' {
		return Unreadable // of a message of several lines
	}
	head, text, ok := bytes.Cut(line, []byte("] "))
	parts := bytes.Split(head[1:], []byte("]["))
	if !ok || len(parts) < 3 {
		return CutOff
	}
	if r.rec.Time, ok = r.parseTime(parts[0]); !ok {
		return NoTime
	}
	if !bytes.HasPrefix(parts[1], []byte("vaultwarden::api::")) && !bytes.HasPrefix(parts[1], []byte("bitwarden_rs::api::")) {
		return NotAttempt
	}
	for _, m := range []string{
		"Username or password is incorrect. Try again. IP: ",
		"Username or password is incorrect. Try again IP: ",
		"Invalid admin token. IP: ",
		"Token is invalid! IP: ",
	} {
		if rest, ok := bytes.CutPrefix(text, []byte(m)); ok {
			return r.vaultwardenFailed(rest, emit)
		}
	}
	if rest, ok := bytes.CutPrefix(text, []byte("Invalid TOTP code! Server time: ")); ok && len(rest) > 28 && string(rest[19:28]) == " UTC IP: " {
		return r.vaultwardenFailed(rest[28:], emit)
	}
	if rest, ok := bytes.CutPrefix(text, []byte("User ")); ok {
		const in = " logged in successfully. IP: "
		if i := bytes.LastIndex(rest, []byte(in)); i >= 0 {
			return r.attempt("vaultwarden", doorward.Succeeded, rest[i+len(in):], rest[:i], emit)
		}
	}
	return NotAttempt
}

// vaultwardenFailed reads ADDRESS[. Username: NAME.].
func (r *Reader) vaultwardenFailed(s []byte, emit func(*Record)) Skip {
	node, name, _ := bytes.Cut(s, []byte(". Username: "))
	return r.attempt("vaultwarden", doorward.Failed, bytes.TrimRight(node, ". "), bytes.TrimSuffix(name, []byte(".")), emit)
}

// nextcloud reads Nextcloud's log in JSON. "Bruteforce attempt" lines tell of the same
// failures again.
func (r *Reader) nextcloud(line []byte, emit func(*Record)) Skip {
	var j struct {
		Time    string `json:"time"`
		Remote  string `json:"remoteAddr"`
		Message string `json:"message"`
	}
	if json.Unmarshal(line, &j) != nil {
		return jsonSkip(line)
	}
	name, ok := bytes.CutPrefix([]byte(j.Message), []byte("Login failed: "))
	if !ok {
		return NotAttempt
	}
	if r.rec.Time, ok = r.parseTime([]byte(j.Time)); !ok {
		return NoTime
	}
	if i := bytes.LastIndex(name, []byte(" (Remote IP: ")); i >= 0 {
		name = name[:i]
	}
	if n := len(name); n > 1 && name[0] == '\'' && name[n-1] == '\'' {
		name = name[1 : n-1]
	}
	return r.attempt("nextcloud", doorward.Failed, []byte(j.Remote), name, emit)
}

// homeAssistant reads Home Assistant's log. What the caller sends comes after the
// address; before it is the name that resolves it.
func (r *Reader) homeAssistant(line []byte, emit func(*Record)) Skip {
	const words = " [homeassistant.components.http.ban] Login attempt or request with invalid authentication from "
	if len(line) < 20 {
		return CutOff
	}
	i := 19
	for i < len(line) && line[i] != ' ' { // .287
		i++
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime(line[:i]); !ok {
		return NoTime
	}
	level, rest, _ := bytes.Cut(line[min(i+1, len(line)):], space)
	thread, rest, _ := bytes.Cut(rest, space)
	if string(level) != "WARNING" || len(thread) == 0 {
		return NotAttempt
	}
	rest, ok = bytes.CutPrefix(rest, []byte(words[1:]))
	if !ok {
		return NotAttempt
	}
	_, rest, ok = bytes.Cut(rest, []byte(" (")) // the name of the host
	node, _, closed := bytes.Cut(rest, []byte(")"))
	if !ok || !closed {
		return CutOff
	}
	return r.attempt("homeassistant", doorward.Failed, node, nil, emit)
}

// keycloak reads the events that Keycloak logs, with values bare or in quotes. Bare, the
// client's name, which the caller gives, can hold an address of its own: two that
// differ name nobody.
func (r *Reader) keycloak(line []byte, emit func(*Record)) Skip {
	if len(line) < 24 || line[23] != ' ' {
		return Unreadable
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime(line[:23]); !ok {
		return NoTime
	}
	rest, ok := cutLogger(line[24:])
	if !ok {
		return NotAttempt
	}
	quoted := len(rest) > 0 && rest[0] == '"'
	var kind, node, name []byte
	if quoted {
		kind, node, name, ok = keycloakQuoted(rest)
		if !ok {
			return CutOff
		}
	} else {
		kind, rest, _ = bytes.Cut(rest, []byte(", "))
		const key = ", ipAddress="
		_, after, ok := bytes.Cut(rest, []byte(key))
		if !ok {
			return NoAddress
		}
		node, _, _ = bytes.Cut(after, []byte(", "))
		for {
			if _, after, ok = bytes.Cut(after, []byte(key)); !ok {
				break
			}
			if other, _, _ := bytes.Cut(after, []byte(", ")); !bytes.Equal(node, other) {
				return Ambiguous
			}
		}
		if i := bytes.LastIndex(rest, []byte(", username=")); i >= 0 {
			name, _, _ = bytes.Cut(rest[i+len(", username="):], []byte(", "))
		}
	}
	switch string(kind) {
	case "LOGIN_ERROR":
		return r.attempt("keycloak", doorward.Failed, node, name, emit)
	case "LOGIN":
		return r.attempt("keycloak", doorward.Succeeded, node, name, emit)
	}
	return NotAttempt
}

// cutLogger cuts LEVEL [org.keycloak.events] (THREAD) type= off: other loggers may tell of
// anything.
func cutLogger(s []byte) (rest []byte, ok bool) {
	_, s, _ = bytes.Cut(s, space) // level
	logger, s, _ := bytes.Cut(bytes.TrimLeft(s, " "), space)
	if string(logger) != "[org.keycloak.events]" && string(logger) != "[org.key.events]" || len(s) == 0 || s[0] != '(' {
		return nil, false
	}
	_, s, _ = bytes.Cut(s, []byte(")"))
	return bytes.CutPrefix(s, []byte(" type="))
}

// keycloakQuoted reads "KIND", key="value", ... and nothing else.
func keycloakQuoted(s []byte) (kind, node, name []byte, ok bool) {
	kind, s, ok = cutQuoted(s)
	for ok && len(s) > 0 {
		var key, value []byte
		if s, ok = bytes.CutPrefix(s, []byte(", ")); !ok {
			break
		}
		if key, s, ok = bytes.Cut(s, []byte("=")); !ok || bytes.ContainsAny(key, `", `) {
			return nil, nil, nil, false
		}
		if value, s, ok = cutQuoted(s); !ok {
			break
		}
		switch string(key) {
		case "ipAddress":
			if node != nil && !bytes.Equal(node, value) {
				return nil, nil, nil, false
			}
			node = value
		case "username":
			name = value
		}
	}
	return kind, node, name, ok
}

// gitea reads Gitea's log:
//
//	2022/03/01 12:57:58 ...auth.go:200:SignInPost() [I] Failed authentication attempt for NAME from ADDRESS:PORT: WHY [... name: NAME ...]
//
// The name stands on both sides of the address. Where that leaves two addresses, the one
// counts whose sides agree on the name; else nobody is named.
func (r *Reader) gitea(line []byte, emit func(*Record)) Skip {
	if len(line) < 20 {
		return CutOff
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime(line[:19]); !ok {
		return NoTime
	}
	caller, rest, _ := bytes.Cut(bytes.TrimPrefix(line[19:], space), space)
	if !bytes.HasSuffix(caller, []byte(":SignInPost()")) {
		return NotAttempt
	}
	for len(rest) > 0 && rest[0] == '[' { // [I] [645e123e]
		_, rest, _ = bytes.Cut(rest, []byte("] "))
	}
	if rest, ok = bytes.CutPrefix(rest, []byte("Failed authentication attempt for ")); !ok {
		return NotAttempt
	}
	from := []byte(" from ")
	var node, name []byte
	agreed, differ := false, false
	for at, tries := 0, 0; ; tries++ {
		n := bytes.Index(rest[at:], from)
		if n < 0 {
			break
		}
		if tries == maxTries {
			return Ambiguous
		}
		at += n
		who, after := rest[:at], rest[at+len(from):]
		at += len(from)
		other, why, ok := bytes.Cut(after, []byte(": "))
		if !ok || bytes.IndexByte(other, ' ') >= 0 || !parseNode(other).IsValid() {
			continue
		}
		if names(why, who) {
			if agreed && !bytes.Equal(node, other) {
				return Ambiguous
			}
			node, name, agreed = other, who, true
			continue
		}
		if !agreed {
			differ = differ || node != nil && !bytes.Equal(node, other)
			node, name = other, who
		}
	}
	if differ && !agreed {
		return Ambiguous
	}
	return r.attempt("gitea", doorward.Failed, node, name, emit)
}

// names reports whether why is exactly one of the reasons that name who.
func names(why, who []byte) bool {
	if i := bytes.Index(why, []byte(" [")); i >= 0 && i < 40 {
		for _, key := range []string{"email: ", "uid: 0, name: "} {
			if rest, ok := bytes.CutPrefix(why[i+2:], []byte(key)); ok {
				if rest, ok = bytes.CutPrefix(rest, who); ok {
					return string(rest) == "]" || string(rest) == ", keyid: 0]"
				}
			}
		}
	}
	return false
}

// authelia reads Authelia's log, in its text form or in JSON.
func (r *Reader) authelia(line []byte, emit func(*Record)) Skip {
	var when, message, remote []byte
	if line[0] == '{' {
		var j struct {
			Time    string `json:"time"`
			Message string `json:"msg"`
			Remote  string `json:"remote_ip"`
		}
		if json.Unmarshal(line, &j) != nil {
			return jsonSkip(line)
		}
		when, message, remote = []byte(j.Time), []byte(j.Message), []byte(j.Remote)
	} else if skip := logfmt(line, map[string]*[]byte{"time": &when, "msg": &message, "remote_ip": &remote}); skip != Read {
		return skip
	}
	o := doorward.Failed
	var name []byte
	if rest, ok := bytes.CutPrefix(message, []byte("Error occurred getting details for user with username input '")); ok {
		name, _, ok = bytes.Cut(rest, []byte("' which usually indicates"))
		if !ok {
			return CutOff
		}
	} else {
		kind, rest, ok := bytes.Cut(message, []byte(" authentication attempt "))
		switch {
		case !ok:
			return NotAttempt
		case bytes.HasPrefix(kind, []byte("Successful ")):
			o = doorward.Succeeded
		case !bytes.HasPrefix(kind, []byte("Unsuccessful ")):
			return NotAttempt
		}
		if _, rest, ok = bytes.Cut(rest, []byte("by user '")); ok {
			if name, ok = bytes.CutSuffix(rest, []byte("'")); !ok {
				name, _, _ = bytes.Cut(rest, []byte("': "))
			}
		}
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime(when); !ok {
		return NoTime
	}
	return r.attempt("authelia", o, remote, name, emit)
}

// logfmt reads key=value and key="value" and fills what is asked for. A key that is there
// twice is somebody's doing.
func logfmt(s []byte, want map[string]*[]byte) Skip {
	found := 0
	for len(s) > 0 {
		key, rest, ok := bytes.Cut(s, []byte("="))
		if !ok || bytes.ContainsAny(key, ` "`) {
			if found == 0 {
				return Unreadable
			}
			return CutOff
		}
		var value []byte
		if len(rest) > 0 && rest[0] == '"' {
			if value, rest, ok = cutQuoted(rest); !ok || len(rest) > 0 && rest[0] != ' ' {
				return CutOff
			}
			value = unquote(value)
			rest = bytes.TrimPrefix(rest, space)
		} else {
			value, rest, _ = bytes.Cut(rest, space)
		}
		if p := want[string(key)]; p != nil {
			if *p != nil {
				return Ambiguous
			}
			*p = append(make([]byte, 0, len(value)), value...)
		}
		found++
		s = rest
	}
	return Read
}

// grafana reads Grafana's log, in its text form or in JSON. A failed login is an "Invalid
// username or password" or an "Unauthorized" of the password client, or the POST to /login
// that was answered with 401: versions that write both write them for one login.
func (r *Reader) grafana(line []byte, emit func(*Record)) Skip {
	var when, message, remote, why, method, path, status, id []byte
	if line[0] == '{' {
		var j struct {
			Time    string          `json:"t"`
			Message string          `json:"msg"`
			Remote  string          `json:"remote_addr"`
			Error   string          `json:"error"`
			Method  string          `json:"method"`
			Path    string          `json:"path"`
			Status  json.RawMessage `json:"status"`
			ID      string          `json:"errorMessageID"`
		}
		if json.Unmarshal(line, &j) != nil {
			return jsonSkip(line)
		}
		when, message, remote, why = []byte(j.Time), []byte(j.Message), []byte(j.Remote), []byte(j.Error)
		method, path, status, id = []byte(j.Method), []byte(j.Path), j.Status, []byte(j.ID)
	} else if skip := logfmt(line, map[string]*[]byte{
		"t": &when, "msg": &message, "remote_addr": &remote, "error": &why,
		"method": &method, "path": &path, "status": &status, "errorMessageID": &id,
	}); skip != Read {
		return skip
	}
	again := false
	switch string(message) {
	case "Invalid username or password":
	case "Unauthorized":
		if !bytes.HasPrefix(why, []byte("[password-auth.failed]")) {
			return NotAttempt
		}
	case "Request Completed":
		if string(method) != "POST" || string(path) != "/login" || string(status) != "401" {
			return NotAttempt
		}
		again = true
	case "Successful Login":
		return NoAddress
	default:
		return NotAttempt
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime(when); !ok {
		return NoTime
	}
	if r.logins.paired(parseNode(remote), r.rec.Time, again) {
		return NotAttempt
	}
	return r.attempt("grafana", doorward.Failed, remote, nil, emit)
}

// authentik reads authentik's events in JSON.
func (r *Reader) authentik(line []byte, emit func(*Record)) Skip {
	var j struct {
		Action     string `json:"action"`
		Client     string `json:"client_ip"`
		Time       string `json:"timestamp"`
		Identifier string `json:"identifier"`
		Context    struct {
			Username string `json:"username"`
		} `json:"context"`
		User struct {
			Username string `json:"username"`
		} `json:"user"`
	}
	if json.Unmarshal(line, &j) != nil {
		return jsonSkip(line)
	}
	o, name := doorward.Failed, j.Context.Username
	switch j.Action {
	case "login_failed":
	case "invalid_identifier":
		name = j.Identifier
	case "login":
		o, name = doorward.Succeeded, j.User.Username
	default:
		return NotAttempt
	}
	var ok bool
	if r.rec.Time, ok = r.parseTime([]byte(j.Time)); !ok {
		return NoTime
	}
	return r.attempt("authentik", o, []byte(j.Client), []byte(name), emit)
}
