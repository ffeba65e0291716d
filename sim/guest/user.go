package guest

import (
	"slices"
	"strconv"
	"strings"
)

// user is an account of the guest.
type user struct {
	name     string
	uid, gid int
	gids     []int // further groups
	home     string
	shell    string
}

func rootUser() *user { return &user{name: "root", home: "/root", shell: "/bin/bash"} }

// records splits a colon-separated file such as /etc/passwd.
func records(v *view, name string) [][]string {
	data, err := v.readFile(name)
	if err != nil {
		return nil
	}
	var out [][]string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, strings.Split(line, ":"))
		}
	}
	return out
}

// findUser looks a user up by name or number in /etc/passwd and /etc/group.
func findUser(v *view, who string) *user {
	v = &view{mounts: v.mounts}
	for _, f := range records(v, "/etc/passwd") {
		if len(f) < 7 || (f[0] != who && f[2] != who) {
			continue
		}
		u := &user{name: f[0], home: f[5], shell: f[6]}
		u.uid, _ = strconv.Atoi(f[2])
		u.gid, _ = strconv.Atoi(f[3])
		for _, g := range records(v, "/etc/group") {
			if len(g) < 4 || !slices.Contains(strings.Split(g[3], ","), u.name) {
				continue
			}
			if id, err := strconv.Atoi(g[2]); err == nil {
				u.gids = append(u.gids, id)
			}
		}
		return u
	}
	return nil
}

// findGroup returns a group's number by name or number.
func findGroup(v *view, who string) (int, bool) {
	v = &view{mounts: v.mounts}
	for _, g := range records(v, "/etc/group") {
		if len(g) >= 3 && (g[0] == who || g[2] == who) {
			id, err := strconv.Atoi(g[2])
			return id, err == nil
		}
	}
	id, err := strconv.Atoi(who)
	return id, err == nil
}

// nameOf returns the name that a number has in /etc/passwd or /etc/group.
func nameOf(v *view, file string, id int) string {
	for _, f := range records(&view{mounts: v.mounts}, file) {
		if len(f) >= 3 && f[2] == strconv.Itoa(id) {
			return f[0]
		}
	}
	return strconv.Itoa(id)
}

// addUser makes an account with a group of its own name and a home directory,
// as useradd -m does. The next number is taken where uid is 0.
func addUser(v *view, u *user, gecos string) error {
	if u.uid == 0 {
		u.uid = 1000
		for _, f := range records(v, "/etc/passwd") {
			if id, _ := strconv.Atoi(f[2]); id >= u.uid && id < 60000 {
				u.uid = id + 1
			}
		}
	}
	u.gid = u.uid
	if u.home == "" {
		u.home = "/home/" + u.name
	}
	if u.shell == "" {
		u.shell = "/bin/sh"
	}
	id := strconv.Itoa(u.uid)
	for file, line := range map[string]string{
		"/etc/passwd": strings.Join([]string{u.name, "x", id, id, gecos, u.home, u.shell}, ":"),
		"/etc/group":  strings.Join([]string{u.name, "x", id, ""}, ":"),
		"/etc/shadow": u.name + ":!:20000:0:99999:7:::",
	} {
		if err := appendLine(v, file, line); err != nil {
			return err
		}
	}
	if _, err := v.stat(u.home); err == nil {
		return nil
	}
	if err := v.mkdirAll(u.home, 0o755); err != nil {
		return err
	}
	if err := v.chmod(u.home, 0o750); err != nil {
		return err
	}
	return v.chown(u.home, u.uid, u.gid)
}

func appendLine(v *view, file, line string) error {
	data, _ := v.readFile(file)
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return v.writeFile(file, []byte(text+line+"\n"), 0o644)
}

// joinGroup adds a user to a group, which is made when it is not there.
func joinGroup(v *view, group, name string) error {
	data, _ := v.readFile("/etc/group")
	var out []string
	found, next := false, 999
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 4 {
			continue
		}
		if id, _ := strconv.Atoi(f[2]); id <= next && id > 900 {
			next = id - 1
		}
		if f[0] == group {
			found = true
			members := slices.DeleteFunc(strings.Split(f[3], ","), func(s string) bool { return s == "" || s == name })
			f[3] = strings.Join(append(members, name), ",")
		}
		out = append(out, strings.Join(f, ":"))
	}
	if !found {
		out = append(out, strings.Join([]string{group, "x", strconv.Itoa(next), name}, ":"))
	}
	return v.writeFile("/etc/group", []byte(strings.Join(out, "\n")+"\n"), 0o644)
}

// setPassword puts a hash, or "!" for none, into /etc/shadow.
func setPassword(v *view, name, hash string) error {
	data, _ := v.readFile("/etc/shadow")
	var out []string
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if f[0] == name && len(f) > 1 {
			f[1] = hash
		}
		out = append(out, strings.Join(f, ":"))
	}
	return v.writeFile("/etc/shadow", []byte(strings.Join(out, "\n")+"\n"), 0o640)
}

// maySudo reports whether a user may run everything as root, and whether without
// a password, by /etc/sudoers and /etc/sudoers.d.
func maySudo(v *view, u *user) (may, free bool) {
	if u.uid == 0 {
		return true, true
	}
	v = &view{mounts: v.mounts}
	files := []string{"/etc/sudoers"}
	entries, _ := v.readDir("/etc/sudoers.d")
	for _, e := range entries {
		if !strings.Contains(e.name, ".") && !strings.HasSuffix(e.name, "~") { // as sudo does
			files = append(files, "/etc/sudoers.d/"+e.name)
		}
	}
	for _, file := range files {
		data, err := v.readFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			who, rule, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok || !ruleNames(v, who, u) || !strings.HasSuffix(strings.TrimSpace(rule), "ALL") {
				continue
			}
			may, free = true, strings.Contains(rule, "NOPASSWD:") // the last match counts
		}
	}
	return may, free
}

func ruleNames(v *view, who string, u *user) bool {
	if group, ok := strings.CutPrefix(who, "%"); ok {
		id, found := findGroup(v, group)
		return found && (u.gid == id || slices.Contains(u.gids, id))
	}
	return who == u.name || who == "ALL"
}
