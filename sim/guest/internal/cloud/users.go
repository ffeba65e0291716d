package cloud

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/sshd"
	"github.com/cps-gpu/homelab/sim/guest/internal/yamlvalue"
)

// users is groups and users. Where the list is absent, or names "default", the
// distribution's own user is made: ubuntu or debian.
func (c *Run) users() {
	for _, g := range yamlvalue.List(c.user["groups"]) {
		if name := yamlvalue.Text(g); name != "" {
			_ = disk.JoinGroup(c.v, name, "")
		}
	}
	entries, given := c.user["users"]
	if !given {
		entries = []any{"default"}
	}
	var sudo []string
	for _, e := range yamlvalue.List(entries) {
		u, ok := e.(map[string]any)
		name := yamlvalue.Text(e)
		if ok {
			name = yamlvalue.Text(u["name"])
		}
		if name == "default" {
			name, u = image.DistroOf(c.s.Root()).ID, c.defaultUser()
			if own := yamlvalue.Text(c.user["user"]); own != "" {
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
		for _, rule := range yamlvalue.Texts(u["sudo"]) {
			if rule != "false" {
				sudo = append(sudo, name+" "+rule)
			}
		}
	}
	if len(sudo) > 0 {
		c.v.Save("/etc/sudoers.d/90-cloud-init-users", "# Created by cloud-init\n"+strings.Join(sudo, "\n")+"\n", 0o644)
		_ = c.v.Chmod("/etc/sudoers.d/90-cloud-init-users", 0o440)
	}
}

func (c *Run) defaultUser() map[string]any {
	return map[string]any{
		"sudo": "ALL=(ALL) NOPASSWD:ALL", "shell": "/bin/bash", "groups": []any{"adm", "sudo"}, "gecos": "Cloud user", "lock_passwd": true,
		"ssh_authorized_keys": append(yamlvalue.List(c.user["ssh_authorized_keys"]), yamlvalue.List(c.meta["public-keys"])...),
		"hashed_passwd":       c.user["password"],
	}
}

func (c *Run) addUser(name string, spec map[string]any) error {
	u := disk.FindUser(c.v, name)
	if u == nil {
		uid, _ := strconv.Atoi(yamlvalue.Text(spec["uid"]))
		u = &disk.User{Name: name, UID: uid, Home: yamlvalue.Text(spec["homedir"]), Shell: yamlvalue.Text(spec["shell"])}
		if err := disk.AddUser(c.v, u, yamlvalue.Text(spec["gecos"])); err != nil {
			return err
		}
	}
	var groups []string
	for _, g := range yamlvalue.Texts(spec["groups"]) {
		for part := range strings.SplitSeq(g, ",") {
			groups = append(groups, strings.TrimSpace(part))
		}
	}
	for _, g := range groups {
		if err := disk.JoinGroup(c.v, g, name); err != nil {
			return err
		}
	}
	hash := yamlvalue.Text(spec["hashed_passwd"])
	if hash == "" {
		hash = yamlvalue.Text(spec["passwd"])
	}
	if locked, given := spec["lock_passwd"]; !given || locked == true {
		hash = "!" + hash // locked is the default
	}
	if err := disk.SetPassword(c.v, name, hash); err != nil {
		return err
	}
	return c.authorizedKeys(u, yamlvalue.Texts(spec["ssh_authorized_keys"]))
}

var errKey = errors.New("not a public key")

func (c *Run) authorizedKeys(u *disk.User, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	dir := u.Home + "/.ssh"
	if err := c.v.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	old, _ := c.v.ReadFile(dir + "/authorized_keys")
	all := disk.Lines(old)
	for _, k := range keys {
		if k = strings.TrimSpace(k); !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	if err := c.v.WriteFile(dir+"/authorized_keys", []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(c.v.Chmod(dir, 0o700), c.v.Chown(dir, u.UID, u.GID), c.v.Chown(dir+"/authorized_keys", u.UID, u.GID))
}

// hostKeys is ssh: the keys of the image, or of whom it was cloned from, go, and
// the machine gets its own.
func (c *Run) hostKeys() {
	if c.user["ssh_deletekeys"] != false {
		entries, _ := c.v.ReadDir("/etc/ssh")
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "ssh_host_") {
				_ = c.v.Remove("/etc/ssh/" + e.Name())
			}
		}
	}
	keys, _ := c.user["ssh_keys"].(map[string]any)
	if private := yamlvalue.Text(keys["ed25519_private"]); private != "" {
		c.v.Save(sshd.HostKeyFile, private, 0o644)
		_ = c.v.Chmod(sshd.HostKeyFile, 0o600)
		c.v.Save(sshd.HostKeyFile+".pub", yamlvalue.Text(keys["ed25519_public"]), 0o644)
	}
	if types := yamlvalue.Texts(c.user["ssh_genkeytypes"]); len(types) > 0 && !slices.Contains(types, "ed25519") {
		c.warn("only ed25519 host keys are simulated, not %s", strings.Join(types, ", "))
	}
	if err := sshd.MakeHostKey(c.v); err != nil {
		c.fail("('ssh', %q)", err.Error())
	}
	if c.user["disable_root"] != false {
		return
	}
	if err := c.authorizedKeys(disk.RootUser(), yamlvalue.Texts(c.user["ssh_authorized_keys"])); err != nil {
		c.fail("('ssh', %q)", errKey.Error())
	}
}

// passwords is chpasswd.
func (c *Run) passwords() {
	chpasswd, _ := c.user["chpasswd"].(map[string]any)
	for _, e := range yamlvalue.List(chpasswd["users"]) {
		u, _ := e.(map[string]any)
		if name, hash := yamlvalue.Text(u["name"]), yamlvalue.Text(u["password"]); name != "" && strings.HasPrefix(hash, "$") {
			_ = disk.SetPassword(c.v, name, hash)
		}
	}
}
