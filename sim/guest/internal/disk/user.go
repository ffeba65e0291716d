package disk

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// User is an account of the guest.
type User struct {
	Name     string
	UID, GID int
	GIDs     []int // further groups
	Home     string
	Shell    string
}

// RootUser is who may do anything.
func RootUser() *User { return &User{Name: "root", Home: "/root", Shell: "/bin/bash"} }

// Records splits a colon-separated file such as /etc/passwd.
func Records(v *View, name string) [][]string {
	data, err := v.ReadFile(name)
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

// FindUser looks a user up by name or number in /etc/passwd and /etc/group.
func FindUser(v *View, who string) *User {
	v = v.AsRoot()
	for _, f := range Records(v, "/etc/passwd") {
		if len(f) < 7 || (f[0] != who && f[2] != who) {
			continue
		}
		u := &User{Name: f[0], Home: f[5], Shell: f[6]}
		u.UID, _ = strconv.Atoi(f[2])
		u.GID, _ = strconv.Atoi(f[3])
		for _, g := range Records(v, "/etc/group") {
			if len(g) < 4 || !slices.Contains(strings.Split(g[3], ","), u.Name) {
				continue
			}
			if id, err := strconv.Atoi(g[2]); err == nil {
				u.GIDs = append(u.GIDs, id)
			}
		}
		return u
	}
	return nil
}

// findGroup returns a group's number by name or number.
func findGroup(v *View, who string) (int, bool) {
	v = v.AsRoot()
	for _, g := range Records(v, "/etc/group") {
		if len(g) >= 3 && (g[0] == who || g[2] == who) {
			id, err := strconv.Atoi(g[2])
			return id, err == nil
		}
	}
	id, err := strconv.Atoi(who)
	return id, err == nil
}

// NameOf returns the name that a number has in /etc/passwd or /etc/group.
func NameOf(v *View, file string, id int) string {
	for _, f := range Records(v.AsRoot(), file) {
		if len(f) >= 3 && f[2] == strconv.Itoa(id) {
			return f[0]
		}
	}
	return strconv.Itoa(id)
}

// AddUser makes an account with a group of its own name and a home directory,
// as useradd -m does. The next number is taken where uid is 0.
func AddUser(v *View, u *User, gecos string) error {
	if u.UID == 0 {
		u.UID = 1000
		for _, f := range Records(v, "/etc/passwd") {
			if id, _ := strconv.Atoi(f[2]); id >= u.UID && id < 60000 {
				u.UID = id + 1
			}
		}
	}
	u.GID = u.UID
	if u.Home == "" {
		u.Home = "/home/" + u.Name
	}
	if u.Shell == "" {
		u.Shell = "/bin/sh"
	}
	id := strconv.Itoa(u.UID)
	for file, line := range map[string]string{
		"/etc/passwd": strings.Join([]string{u.Name, "x", id, id, gecos, u.Home, u.Shell}, ":"),
		"/etc/group":  strings.Join([]string{u.Name, "x", id, ""}, ":"),
		"/etc/shadow": u.Name + ":!:20000:0:99999:7:::",
	} {
		if err := appendLine(v, file, line); err != nil {
			return err
		}
	}
	if _, err := v.Stat(u.Home); err == nil {
		return nil
	}
	if err := v.MkdirAll(u.Home, 0o755); err != nil {
		return err
	}
	if err := v.Chmod(u.Home, 0o750); err != nil {
		return err
	}
	return v.Chown(u.Home, u.UID, u.GID)
}

func appendLine(v *View, file, line string) error {
	data, _ := v.ReadFile(file)
	text := string(data)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return v.WriteFile(file, []byte(text+line+"\n"), 0o644)
}

// JoinGroup adds a user to a group, which is made when it is not there.
func JoinGroup(v *View, group, name string) error {
	data, _ := v.ReadFile("/etc/group")
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
	return v.WriteFile("/etc/group", []byte(strings.Join(out, "\n")+"\n"), 0o644)
}

// SetPassword puts a hash, or "!" for none, into /etc/shadow.
func SetPassword(v *View, name, hash string) error {
	data, _ := v.ReadFile("/etc/shadow")
	var out []string
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if f[0] == name && len(f) > 1 {
			f[1] = hash
		}
		out = append(out, strings.Join(f, ":"))
	}
	return v.WriteFile("/etc/shadow", []byte(strings.Join(out, "\n")+"\n"), 0o640)
}

// HasPassword reports whether a text is a user's password. /etc/shadow must have its hash by bcrypt.
func HasPassword(v *View, name string, text []byte) bool {
	for _, f := range Records(v.AsRoot(), "/etc/shadow") {
		if f[0] == name && len(f) > 1 {
			return bcrypt.CompareHashAndPassword([]byte(f[1]), text) == nil
		}
	}
	return false
}

// SudoRules are what sudo lets a user do as root.
type SudoRules struct {
	May, Free bool // run a program, and without a password
	TTY       bool // only on a terminal
}

// SudoFor returns the rules for a user and a program's path, by /etc/sudoers and /etc/sudoers.d.
func SudoFor(v *View, u *User, program string) (rules SudoRules) {
	if u.UID == 0 {
		return SudoRules{May: true, Free: true}
	}
	v = v.AsRoot()
	files := []string{"/etc/sudoers"}
	entries, _ := v.ReadDir("/etc/sudoers.d")
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".") && !strings.HasSuffix(e.Name(), "~") { // as sudo does
			files = append(files, "/etc/sudoers.d/"+e.Name())
		}
	}
	for _, file := range files {
		data, err := v.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			who, rule, ok := strings.Cut(strings.TrimSpace(line), " ")
			if who == "Defaults" && rule == "requiretty" {
				rules.TTY = true
			}
			if !ok || !ruleNames(v, who, u) {
				continue
			}
			commands := strings.FieldsFunc(rule, func(r rune) bool { return strings.ContainsRune(" ,:=)", r) })
			if slices.Contains(commands[1:], program) || commands[len(commands)-1] == "ALL" {
				rules.May, rules.Free = true, strings.Contains(rule, "NOPASSWD:") // the last match counts
			}
		}
	}
	return rules
}

func ruleNames(v *View, who string, u *User) bool {
	if group, ok := strings.CutPrefix(who, "%"); ok {
		id, found := findGroup(v, group)
		return found && (u.GID == id || slices.Contains(u.GIDs, id))
	}
	return who == u.Name || who == "ALL"
}

// OwnerOf reads "user", "user:group", ":group" or "user:"; -1 leaves one alone.
func OwnerOf(v *View, spec string) (uid, gid int, err error) {
	name, group, both := strings.Cut(spec, ":")
	uid, gid = -1, -1
	if name != "" {
		u := FindUser(v, name)
		if n, err := strconv.Atoi(name); u == nil && err == nil {
			u = &User{UID: n, GID: n}
		}
		if u == nil {
			return 0, 0, errors.New("invalid user: '" + spec + "'")
		}
		uid = u.UID
		if both && group == "" {
			gid = u.GID
		}
	}
	if group != "" {
		id, ok := findGroup(v, group)
		if !ok {
			return 0, 0, errors.New("invalid group: '" + spec + "'")
		}
		gid = id
	}
	return uid, gid, nil
}
