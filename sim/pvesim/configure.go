package pvesim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// change is what a call wants of a configuration.
type change struct {
	set    map[string]string
	delete []string
	revert []string
	digest string
	force  bool
}

func (c *call) getConfig() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	if name := c.param("snapshot"); name != "" {
		sn, err := v.snapshot(name)
		if err != nil {
			return nil, err
		}
		out := c.s.snapshotted(sn)
		out["digest"] = v.sum()
		return out, nil
	}
	return c.s.configuration(v, c.p.bool("current")), nil
}

func (c *call) getPending() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	keys := slices.Collect(maps.Keys(v.conf))
	for k := range v.pending {
		if v.conf[k] == "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := []any{map[string]any{"key": "digest", "value": v.sum()}}
	for _, k := range keys {
		e := map[string]any{"key": k}
		if now, set := v.conf[k]; set {
			e["value"] = c.s.typed(k, now)
		}
		if wanted, waits := v.pending[k]; waits && wanted == "" {
			e["delete"] = 1
		} else if waits {
			e["pending"] = c.s.typed(k, wanted)
		}
		out = append(out, e)
	}
	return out, nil
}

// wantedChange reads a call's parameters and refuses what makes no sense, in the
// order in which Proxmox looks (PVE/API2/Qemu.pm, update_vm_api).
func (c *call) wantedChange() (change, error) {
	ch := change{set: c.options(), delete: splitList(c.param("delete")), revert: splitList(c.param("revert")),
		digest: c.param("digest"), force: c.p.bool("force")}
	if err := c.rootOption("skiplock"); err != nil {
		return ch, err
	}
	if err := checkSSHKeys(ch.set["sshkeys"]); err != nil {
		return ch, err
	}
	if len(ch.set)+len(ch.delete)+len(ch.revert) == 0 {
		return ch, die("no options specified")
	}
	resolveCDROM(ch.set)
	for _, k := range ch.revert {
		switch {
		case !c.s.isOption(k):
			return ch, badParam("revert", fmt.Sprintf("unknown option '%s'", k))
		case ch.sets(k):
			return ch, badParam("delete", fmt.Sprintf("you can't use '-%s' and -revert %s' at the same time", k, k))
		}
	}
	for i, k := range ch.delete {
		if k == "cdrom" {
			k = "ide2"
			ch.delete[i] = k
		}
		switch {
		case ch.sets(k):
			return ch, badParam("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", k, k))
		case slices.Contains(ch.revert, k):
			return ch, badParam("revert", fmt.Sprintf("you can't use '-delete %s' and -revert %s' at the same time", k, k))
		case !c.s.isOption(k):
			return ch, badParam("delete", fmt.Sprintf("unknown option '%s'", k))
		}
	}
	return ch, nil
}

func (ch change) sets(k string) bool {
	_, there := ch.set[k]
	return there
}

// isOption tells whether VMs have such an option.
func (s *state) isOption(k string) bool {
	return k == "lock" || k == "vmstate" || k == "parent" || k == "snaptime" || k == "meta" || s.configKeys()[k] != nil && !noOptions[k]
}

// resolveCDROM puts what is in the drive of old, cdrom, into ide2.
func resolveCDROM(opts map[string]string) {
	value, there := opts["cdrom"]
	if !there {
		return
	}
	if !strings.Contains(value, "media=") {
		value += ",media=cdrom"
	}
	opts["ide2"] = value
	delete(opts, "cdrom")
}

// prepareChange are the checks that come before the work: drives, rights, references.
// Values are written the way in which they will be kept.
func (c *call) prepareChange(ch change) error {
	if err := c.s.checkDriveParams(ch.set); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(ch.set))
	for _, k := range keys {
		switch {
		case netKey.MatchString(k):
			ch.set[k] = c.s.normalNet(k, ch.set[k], false)
		case k == "vmgenid" && ch.set[k] == "1":
			ch.set[k] = c.s.uuid()
		case k == "hookscript":
			if err := c.checkHookscript(ch.set[k]); err != nil {
				return err
			}
		}
	}
	if err := c.mayConfigure(c.vmid(), slices.Concat(ch.delete, keys)); err != nil {
		return err
	}
	if err := c.mayStore(ch.set); err != nil {
		return err
	}
	for _, k := range keys {
		if netKey.MatchString(k) {
			if err := c.s.mayBridge(c.who, k, ch.set[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin is the part of a change that is answered at once, under the lock.
func (c *call) begin(w worker, ch change) (*vm, func(), error) {
	v, err := c.vm()
	if err != nil {
		return nil, nil, err
	}
	unlock, err := w.lock(configLock(v.id), false, configLockTimeout)
	if err != nil {
		return nil, nil, err
	}
	err = func() error {
		if c.s.vms[v.id] != v {
			return die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", v.node, v.id)
		}
		if ch.digest != "" && ch.digest != v.sum() {
			return die("checksum mismatch (file change by other user?)")
		}
		if !c.p.bool("skiplock") {
			if err := v.checkLock(); err != nil {
				return err
			}
		}
		return v.checkBalloon(ch)
	}()
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return v, unlock, nil
}

// putConfig changes a configuration before it answers.
func (c *call) putConfig() (any, error) {
	ch, err := c.wantedChange()
	if err != nil {
		return nil, err
	}
	return nil, c.changeNow(ch)
}

// changeNow changes a configuration before the request is answered.
func (c *call) changeNow(ch change) error {
	if err := c.prepareChange(ch); err != nil {
		return err
	}
	w := c.worker()
	v, unlock, err := c.begin(w, ch)
	if err != nil {
		return err
	}
	defer unlock()
	return w.apply(c.who, v, ch)
}

// postConfig changes a configuration in a task. What it takes to pass devices
// through is asked in the task alone.
func (c *call) postConfig() (any, error) {
	ch, err := c.wantedChange()
	if err != nil {
		return nil, err
	}
	if err := c.prepareChange(ch); err != nil {
		return nil, err
	}
	_, unlock, err := c.begin(c.worker(), ch)
	if err != nil {
		return nil, err
	}
	unlock()
	ch.digest = ""
	told := c.toldChange()
	upid, err := c.startTask("qmconfig", strconv.Itoa(c.vmid()), func(w worker) error {
		v, unlock, err := c.begin(w, ch)
		if err != nil {
			return err
		}
		defer unlock()
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
			return err
		}
		w.log("update VM %d: %s", v.id, told)
		return w.apply(c.who, v, ch)
	})
	if err != nil || c.p.int("background_delay", 0) == 0 {
		return upid, err
	}
	return c.finished(upid, c.p.int("background_delay", 0))
}

func hashed(s string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return uint16(h.Sum32())
}

// toldChange is a change as a task's log describes it.
func (c *call) toldChange() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c.p)) {
		if slices.Contains([]string{"node", "vmid", "digest", "background_delay", "import-working-storage"}, k) {
			continue
		}
		value := c.param(k)
		if k == "cipassword" {
			value = "<hidden>"
		}
		parts = append(parts, "-"+k, value)
	}
	return strings.Join(parts, " ")
}
