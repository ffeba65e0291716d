package pvesim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
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

// wantedChange reads a call's parameters and refuses what makes no sense.
func (c *call) wantedChange() (change, error) {
	ch := change{set: c.options(), delete: splitList(c.param("delete")), revert: splitList(c.param("revert")),
		digest: c.param("digest"), force: c.p.bool("force")}
	if err := c.rootOption("skiplock"); err != nil {
		return ch, err
	}
	if len(ch.set)+len(ch.delete)+len(ch.revert) == 0 {
		return ch, die("no options specified")
	}
	for _, k := range ch.delete {
		if _, both := ch.set[k]; both {
			return ch, badParam("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", k, k))
		}
		if c.s.configKeys()[k] == nil || noOptions[k] {
			return ch, badParam("delete", fmt.Sprintf("unknown option '%s'", k))
		}
	}
	return ch, nil
}

// prepareChange are the checks that come before the work: rights and references.
func (c *call) prepareChange(ch change) error {
	keys := slices.Sorted(maps.Keys(ch.set))
	if err := c.mayConfigure(c.vmid(), slices.Concat(keys, ch.delete)); err != nil {
		return err
	}
	for _, k := range keys {
		var err error
		switch {
		case strings.HasPrefix(k, "net"):
			err = c.s.mayBridge(c.who, k, ch.set[k])
		case isDrive(k):
			err = c.checkDrive(k, c.s.props(k, ch.set[k]))
		case k == "cpu":
			err = checkCPU(c.s.props(k, ch.set[k])["cputype"], c.s.cpuTypes())
		}
		if err != nil {
			return err
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
		if c.p.bool("skiplock") {
			return nil
		}
		return v.checkLock()
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
	upid, err := c.startTask("qmconfig", itoa(c.vmid()), func(w worker) error {
		v, unlock, err := c.begin(w, ch)
		if err != nil {
			return err
		}
		defer unlock()
		if err := w.sleep(w.s.opts.Timing.Configure); err != nil {
			return err
		}
		return w.apply(c.who, v, ch)
	})
	if err != nil || c.p.int("background_delay", 0) == 0 {
		return upid, err
	}
	return c.finished(upid, c.p.int("background_delay", 0))
}

// apply makes the change, option by option, each written at once, in an order
// that nobody should rely on. One that fails leaves the others behind it undone
// and those before it done: Proxmox does not put anything back.
func (w worker) apply(who identity, v *vm, ch change) error {
	for _, k := range ch.revert {
		delete(v.pending, k)
		v.changed()
	}
	for _, k := range ch.delete {
		if err := w.deleteOption(who, v, k, ch.force); err != nil {
			return err
		}
	}
	keys := slices.Collect(maps.Keys(ch.set))
	slices.SortFunc(keys, func(a, b string) int { return int(hashed(a)) - int(hashed(b)) })
	// Drives first, as what refers to them (boot) is checked when it is set.
	slices.SortStableFunc(keys, func(a, b string) int { return boolInt(!isDrive(a)) - boolInt(!isDrive(b)) })
	for _, k := range keys {
		if err := w.setOption(who, v, k, ch.set[k]); err != nil {
			return err
		}
	}
	if !v.running && len(v.pending) > 0 {
		v.applyPending()
	}
	if slices.ContainsFunc(slices.Concat(keys, ch.delete), isDrive) {
		w.s.replug(v)
	}
	return nil
}

func hashed(s string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return uint16(h.Sum32())
}

// hot are options that take effect on a running VM; pluggable are those that do
// where something is plugged in or pulled out, and wait where it is changed.
var (
	hot = regexp.MustCompile(`^(description|hookscript|lock|name|onboot|protection|shares|startup|tags|vmstatestorage|template|` +
		`ciuser|cipassword|citype|ciupgrade|cicustom|nameserver|searchdomain|sshkeys|ipconfig\d+|net\d+|unused\d+)$`)
	pluggable = regexp.MustCompile(`^(scsi|virtio)\d+$`)
)

func (v *vm) put(key, value string) {
	plugged := pluggable.MatchString(key) && (v.conf[key] == "" || value == "")
	if v.running && !hot.MatchString(key) && !plugged {
		if v.pending == nil {
			v.pending = map[string]string{}
		}
		if v.conf[key] == value && value != "" {
			delete(v.pending, key)
		} else {
			v.pending[key] = value
		}
		v.changed()
		return
	}
	if value == "" {
		v.unset(key)
		return
	}
	v.set(key, value)
}

func (w worker) setOption(who identity, v *vm, key, value string) error {
	for _, x := range []string{v.wanted()[key], value} {
		if err := w.s.mayChange(who, v.id, key, x); err != nil {
			return err
		}
	}
	if key == "boot" {
		if err := w.s.checkBoot(v, value); err != nil {
			return err
		}
	}
	if isDrive(key) {
		return w.setDrive(v, key, value)
	}
	value = w.s.normal(key, value)
	if value == "" { // "tags=" does not delete them
		value = " "
	}
	v.put(key, value)
	return nil
}

func (s *Sim) checkBoot(v *vm, value string) error {
	_, order, ok := strings.Cut(value, "order=")
	if !ok {
		return nil
	}
	for _, dev := range splitList(order) {
		if v.wanted()[dev] == "" {
			return die("invalid bootorder: device '%s' does not exist'", dev)
		}
	}
	return nil
}

func (w worker) deleteOption(who identity, v *vm, key string, force bool) error {
	value := v.wanted()[key]
	if value == "" {
		return nil
	}
	if err := w.s.mayChange(who, v.id, key, value); err != nil {
		return err
	}
	switch {
	case unusedKey.MatchString(key):
		return w.deleteUnused(v, key, value)
	case isDrive(key):
		w.retire(v, key, "")
		if force {
			for i := range 256 {
				k := "unused" + itoa(i)
				if v.conf[k] != "" && v.conf[k] == w.s.props(key, value)["file"] {
					if err := w.deleteUnused(v, k, v.conf[k]); err != nil {
						return err
					}
				}
			}
		}
	}
	v.put(key, "")
	return nil
}

func (w worker) deleteUnused(v *vm, key, volid string) error {
	if st, name := w.s.hosts[v.node].volume(volid); st != nil {
		unlock, err := w.lockStorage(st)
		if err != nil {
			return err
		}
		err = w.erase(st, name)
		unlock()
		if err != nil {
			return err
		}
	}
	v.unset(key)
	return nil
}
