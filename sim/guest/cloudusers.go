package guest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// users is groups and users. Where the list is absent, or names "default", the
// distribution's own user is made: ubuntu or debian.
func (c *cloud) users() {
	for _, g := range list(c.user["groups"]) {
		if name := text(g); name != "" {
			_ = joinGroup(c.v, name, "")
		}
	}
	entries, given := c.user["users"]
	if !given {
		entries = []any{"default"}
	}
	var sudo []string
	for _, e := range list(entries) {
		u, ok := e.(map[string]any)
		name := text(e)
		if ok {
			name = text(u["name"])
		}
		if name == "default" {
			name, u = c.s.distro().id, c.defaultUser()
			if own := text(c.user["user"]); own != "" {
				name = own
			}
		}
		if name == "" {
			continue
		}
		if err := c.addUser(name, u); err != nil {
			c.fail("('users_groups', %q)", err.Error())
			continue
		}
		for _, rule := range texts(u["sudo"]) {
			if rule != "false" {
				sudo = append(sudo, name+" "+rule)
			}
		}
	}
	if len(sudo) > 0 {
		c.v.save("/etc/sudoers.d/90-cloud-init-users", "# Created by cloud-init\n"+strings.Join(sudo, "\n")+"\n", 0o644)
		_ = c.v.chmod("/etc/sudoers.d/90-cloud-init-users", 0o440)
	}
}

func (c *cloud) defaultUser() map[string]any {
	return map[string]any{
		"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "groups": []any{"adm", "sudo"}, "gecos": "Cloud user", "lock_passwd": true,
		"ssh_authorized_keys": append(list(c.user["ssh_authorized_keys"]), list(c.meta["public-keys"])...),
		"hashed_passwd":       c.user["password"],
	}
}

func (c *cloud) addUser(name string, spec map[string]any) error {
	u := findUser(c.v, name)
	if u == nil {
		uid, _ := strconv.Atoi(text(spec["uid"]))
		u = &user{name: name, uid: uid, home: text(spec["homedir"]), shell: text(spec["shell"])}
		if err := addUser(c.v, u, text(spec["gecos"])); err != nil {
			return err
		}
	}
	var groups []string
	for _, g := range texts(spec["groups"]) {
		for part := range strings.SplitSeq(g, ",") {
			groups = append(groups, strings.TrimSpace(part))
		}
	}
	for _, g := range groups {
		if err := joinGroup(c.v, g, name); err != nil {
			return err
		}
	}
	hash := text(spec["hashed_passwd"])
	if hash == "" {
		hash = text(spec["passwd"])
	}
	if locked, given := spec["lock_passwd"]; !given || locked == true {
		hash = "!" + hash // locked is the default
	}
	if err := setPassword(c.v, name, hash); err != nil {
		return err
	}
	return c.authorizedKeys(u, texts(spec["ssh_authorized_keys"]))
}

var errKey = errors.New("not a public key")

func (c *cloud) authorizedKeys(u *user, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	dir := u.home + "/.ssh"
	if err := c.v.mkdirAll(dir, 0o700); err != nil {
		return err
	}
	old, _ := c.v.readFile(dir + "/authorized_keys")
	all := lines(old)
	for _, k := range keys {
		if k = strings.TrimSpace(k); !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	if err := c.v.writeFile(dir+"/authorized_keys", []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(c.v.chmod(dir, 0o700), c.v.chown(dir, u.uid, u.gid), c.v.chown(dir+"/authorized_keys", u.uid, u.gid))
}

// hostKeys is ssh: the keys of the image, or of whom it was cloned from, go, and
// the machine gets its own.
func (c *cloud) hostKeys() {
	if c.user["ssh_deletekeys"] != false {
		entries, _ := c.v.readDir("/etc/ssh")
		for _, e := range entries {
			if strings.HasPrefix(e.name, "ssh_host_") {
				_ = c.v.remove("/etc/ssh/" + e.name)
			}
		}
	}
	keys, _ := c.user["ssh_keys"].(map[string]any)
	if private := text(keys["ed25519_private"]); private != "" {
		c.v.save(hostKeyFile, private, 0o644)
		_ = c.v.chmod(hostKeyFile, 0o600)
		c.v.save(hostKeyFile+".pub", text(keys["ed25519_public"]), 0o644)
	}
	if types := texts(c.user["ssh_genkeytypes"]); len(types) > 0 && !slices.Contains(types, "ed25519") {
		c.warn("only ed25519 host keys are simulated, not %s", strings.Join(types, ", "))
	}
	if err := makeHostKey(c.v); err != nil {
		c.fail("('ssh', %q)", err.Error())
	}
	if c.user["disable_root"] != false {
		return
	}
	if err := c.authorizedKeys(rootUser(), texts(c.user["ssh_authorized_keys"])); err != nil {
		c.fail("('ssh', %q)", errKey.Error())
	}
}

// passwords is chpasswd.
func (c *cloud) passwords() {
	chpasswd, _ := c.user["chpasswd"].(map[string]any)
	for _, e := range list(chpasswd["users"]) {
		u, _ := e.(map[string]any)
		if name, hash := text(u["name"]), text(u["password"]); name != "" && strings.HasPrefix(hash, "$") {
			_ = setPassword(c.v, name, hash)
		}
	}
}
