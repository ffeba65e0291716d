package cloud

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/image"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
	"github.com/cps-gpu/homelab/sim/guest/internal/yamlvalue"
)

// session is how cloud-init runs commands, as root; what they print goes to its log.
func (c *Run) session() *machine.Proc {
	p := c.s.Session(disk.RootUser(), nil, c.output(), c.output())
	p.Dir = "/"
	return p
}

const cloudOutput = "/var/log/cloud-init-output.log"

func (c *Run) output() io.Writer {
	at, err := c.v.Open(cloudOutput, 0o640, false)
	if err != nil {
		return io.Discard
	}
	return c.v.Writer(at)
}

// script runs a list of commands: texts are for the shell, lists are argument
// vectors. As in cloud-init they become one script, whose status is its last
// command's.
func (c *Run) script(key, module string) {
	commands := yamlvalue.List(c.user[key])
	if len(commands) == 0 {
		return
	}
	var b strings.Builder
	b.WriteString("#!/bin/sh\n")
	for _, cmd := range commands {
		words, isList := cmd.([]any)
		if !isList {
			b.WriteString(yamlvalue.Text(cmd) + "\n")
			continue
		}
		for i, w := range words {
			quoted, err := syntax.Quote(yamlvalue.Text(w), syntax.LangPOSIX)
			if err != nil {
				c.fail("('%s', %v)", module, err)
				return
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(quoted)
		}
		b.WriteByte('\n')
	}
	name := "/var/lib/cloud/instance/scripts/" + key
	c.v.Save(name, b.String(), 0o644)
	_ = c.v.Chmod(name, 0o700)
	p := c.session()
	p.Args = []string{name}
	if code := p.Exec(c.s.Context()); code != 0 && c.s.Context().Err() == nil {
		if module == "bootcmd" {
			c.fail("('bootcmd', ProcessExecutionError(\"Unexpected error while running command.\\nExit code: %d\"))", code)
			return
		}
		c.fail("('scripts_user', RuntimeError('Runparts: 1 failures (%s) in 1 attempted commands'))", key)
	}
}

// perBoot is scripts_per_boot: every executable of its folder, in order, whichever of them fails (subp.runparts).
func (c *Run) perBoot() {
	const folder = "/var/lib/cloud/scripts/per-boot"
	entries, _ := c.v.ReadDir(folder)
	tried := 0
	var failed []string
	for _, e := range entries {
		if e.Mode()&0o111 == 0 {
			continue
		}
		tried++
		p := c.session()
		p.Args = []string{folder + "/" + e.Name()}
		if code := p.Exec(c.s.Context()); code != 0 && c.s.Context().Err() == nil {
			failed = append(failed, e.Name())
		}
	}
	if len(failed) > 0 {
		c.fail("('scripts_per_boot', RuntimeError('Runparts: %d failures (%s) in %d attempted commands'))", len(failed), strings.Join(failed, ","), tried)
	}
}

// writeFiles is write_files; those with defer come after users and packages.
func (c *Run) writeFiles(deferred bool) {
	module := "write_files"
	if deferred {
		module += "_deferred"
	}
	for _, e := range yamlvalue.List(c.user["write_files"]) {
		f, ok := e.(map[string]any)
		if !ok || (f["defer"] == true) != deferred {
			continue
		}
		if err := c.writeOne(f); err != nil {
			c.fail("('%s', %q)", module, err.Error())
			return
		}
	}
}

func (c *Run) writeOne(f map[string]any) error {
	name := yamlvalue.Text(f["path"])
	if !strings.HasPrefix(name, "/") {
		return fmt.Errorf("path %q is not absolute", name)
	}
	data, err := decode(yamlvalue.Text(f["content"]), yamlvalue.Text(f["encoding"]))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	perm := uint64(0o644)
	if p := yamlvalue.Text(f["permissions"]); p != "" {
		if perm, err = strconv.ParseUint(p, 8, 12); err != nil {
			return fmt.Errorf("%s: permissions %q", name, p)
		}
	}
	if err := c.v.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if f["append"] == true {
		old, _ := c.v.ReadFile(name)
		data = append(bytes.Clone(old), data...)
	}
	if err := c.v.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	if err := c.v.Chmod(name, disk.UnixMode(perm)); err != nil {
		return err
	}
	owner := yamlvalue.Text(f["owner"])
	if owner == "" {
		owner = "root:root"
	}
	uid, gid, err := disk.OwnerOf(c.v, owner)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err) // the user is made later: defer was needed
	}
	return c.v.Chown(name, uid, gid)
}

// decode undoes write_files' encoding.
func decode(content, encoding string) ([]byte, error) {
	switch encoding {
	case "", "text/plain":
		return []byte(content), nil
	case "b64", "base64":
		return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), ""))
	}
	return nil, fmt.Errorf("encoding %q is not simulated", encoding)
}

// notSimulated refuses modules that nothing asks for.
func (c *Run) notSimulated() {
	for _, key := range []string{"disk_setup", "fs_setup", "mounts", "swap"} {
		if c.user[key] != nil {
			c.fail("%s is not simulated", key)
		}
	}
}

// setHostname prefers user-data's over meta-data's.
func (c *Run) setHostname() {
	if c.user["preserve_hostname"] == true {
		return
	}
	name := yamlvalue.Text(c.user["hostname"])
	if name == "" {
		name, _, _ = strings.Cut(yamlvalue.Text(c.user["fqdn"]), ".")
	}
	for _, key := range []string{"local-hostname", "hostname"} {
		if name == "" {
			name = yamlvalue.Text(c.meta[key])
		}
	}
	if name == "" {
		name = image.DistroOf(c.s.Root()).ID
	}
	c.v.Save("/etc/hostname", name+"\n", 0o644)
	c.s.SetHostname(name)
}

func (c *Run) etcHosts() {
	if m := c.user["manage_etc_hosts"]; m != true && m != "localhost" {
		return
	}
	name := c.s.Hostname()
	names := name
	if fqdn := yamlvalue.Text(c.user["fqdn"]); fqdn != "" {
		names = fqdn + " " + name
	}
	c.v.Save("/etc/hosts", "127.0.1.1 "+names+"\n127.0.0.1 localhost\n\n::1 localhost ip6-localhost ip6-loopback\n", 0o644)
}

func (c *Run) timezone() {
	zone := yamlvalue.Text(c.user["timezone"])
	if zone == "" {
		return
	}
	c.v.Save("/etc/timezone", zone+"\n", 0o644)
	_ = c.v.Remove("/etc/localtime")
	_ = c.v.Symlink("/usr/share/zoneinfo/"+zone, "/etc/localtime")
}
