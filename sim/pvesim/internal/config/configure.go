package config

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Change is what a call wants of a configuration.
type Change struct {
	set    map[string]string
	Delete []string
	revert []string
	digest string
	Force  bool
}

func getConfig(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	if name := c.Param("snapshot"); name != "" {
		sn, err := v.Snapshot(name)
		if err != nil {
			return nil, err
		}
		out := SnapshotSection(c.State, sn)
		out["digest"] = v.Sum()
		return out, nil
	}
	return c.State.Configuration(v, c.Params.Bool("current")), nil
}

func getPending(c *world.Call) (any, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	keys := slices.Collect(maps.Keys(v.Conf))
	for k := range v.Pending {
		if v.Conf[k] == "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := []any{map[string]any{"key": "digest", "value": v.Sum()}}
	for _, k := range keys {
		e := map[string]any{"key": k}
		if now, set := v.Conf[k]; set {
			e["value"] = c.State.ConfigValue(k, now)
		}
		if wanted, waits := v.Pending[k]; waits && wanted == "" {
			e["delete"] = 1
		} else if waits {
			e["pending"] = c.State.ConfigValue(k, wanted)
		}
		out = append(out, e)
	}
	return out, nil
}

// wantedChange reads a call's parameters and refuses what makes no sense, in the
// order in which Proxmox looks (PVE/API2/Qemu.pm, update_vm_api).
func wantedChange(c *world.Call) (Change, error) {
	ch := Change{set: Options(c), Delete: schema.SplitList(c.Param("delete")), revert: schema.SplitList(c.Param("revert")),
		digest: c.Param("digest"), Force: c.Params.Bool("force")}
	if err := RootOption(c, "skiplock"); err != nil {
		return ch, err
	}
	if err := CheckSSHKeys(ch.set["sshkeys"]); err != nil {
		return ch, err
	}
	if len(ch.set)+len(ch.Delete)+len(ch.revert) == 0 {
		return ch, answer.Die("no options specified")
	}
	ResolveCDROM(ch.set)
	for _, k := range ch.revert {
		switch {
		case !isOption(c.State, k):
			return ch, answer.BadParam("revert", fmt.Sprintf("unknown option '%s'", k))
		case ch.sets(k):
			return ch, answer.BadParam("delete", fmt.Sprintf("you can't use '-%s' and -revert %s' at the same time", k, k))
		}
	}
	for i, k := range ch.Delete {
		if k == "cdrom" {
			k = "ide2"
			ch.Delete[i] = k
		}
		switch {
		case ch.sets(k):
			return ch, answer.BadParam("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", k, k))
		case slices.Contains(ch.revert, k):
			return ch, answer.BadParam("revert", fmt.Sprintf("you can't use '-delete %s' and -revert %s' at the same time", k, k))
		case !isOption(c.State, k):
			return ch, answer.BadParam("delete", fmt.Sprintf("unknown option '%s'", k))
		}
	}
	return ch, nil
}

func (ch Change) sets(k string) bool {
	_, there := ch.set[k]
	return there
}

// isOption tells whether VMs have such an option.
func isOption(s *world.State, k string) bool {
	return k == "lock" || k == "vmstate" || k == "parent" || k == "snaptime" || k == "meta" || s.ConfigKeys()[k] != nil && !noOptions[k]
}

// ResolveCDROM puts what is in the drive of old, cdrom, into ide2.
func ResolveCDROM(opts map[string]string) {
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
func prepareChange(c *world.Call, ch Change) error {
	if err := CheckDriveParams(c.State, ch.set); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(ch.set))
	for _, k := range keys {
		switch {
		case world.NetKey.MatchString(k):
			ch.set[k] = NormalNet(c.State, k, ch.set[k], false)
		case k == "vmgenid" && ch.set[k] == "1":
			ch.set[k] = c.State.UUID()
		case k == "hookscript":
			if err := checkHookscript(c, ch.set[k]); err != nil {
				return err
			}
		}
	}
	if err := MayConfigure(c, c.VMID(), slices.Concat(ch.Delete, keys)); err != nil {
		return err
	}
	if err := MayStore(c, ch.set); err != nil {
		return err
	}
	for _, k := range keys {
		if world.NetKey.MatchString(k) {
			if err := MayBridge(c.State, c.Who, k, ch.set[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Begin is the part of a change that is answered at once, under the lock.
func Begin(c *world.Call, w world.Worker, ch Change) (*world.VM, func(), error) {
	v, err := c.VM()
	if err != nil {
		return nil, nil, err
	}
	unlock, err := w.Lock(world.ConfigLock(v.ID), false, world.ConfigLockTimeout)
	if err != nil {
		return nil, nil, err
	}
	err = func() error {
		if c.State.VMs[v.ID] != v {
			return answer.Die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", v.Node, v.ID)
		}
		if ch.digest != "" && ch.digest != v.Sum() {
			return answer.Die("checksum mismatch (file change by other user?)")
		}
		if !c.Params.Bool("skiplock") {
			if err := v.CheckLock(); err != nil {
				return err
			}
		}
		return checkBalloon(v, ch)
	}()
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return v, unlock, nil
}

// putConfig changes a configuration before it answers.
func putConfig(c *world.Call) (any, error) {
	ch, err := wantedChange(c)
	if err != nil {
		return nil, err
	}
	return nil, ChangeNow(c, ch)
}

// ChangeNow changes a configuration before the request is answered.
func ChangeNow(c *world.Call, ch Change) error {
	if err := prepareChange(c, ch); err != nil {
		return err
	}
	w := c.Worker()
	v, unlock, err := Begin(c, w, ch)
	if err != nil {
		return err
	}
	defer unlock()
	return apply(w, c.Who, v, ch)
}

// postConfig changes a configuration in a task. What it takes to pass devices
// through is asked in the task alone.
func postConfig(c *world.Call) (any, error) {
	ch, err := wantedChange(c)
	if err != nil {
		return nil, err
	}
	if err := prepareChange(c, ch); err != nil {
		return nil, err
	}
	_, unlock, err := Begin(c, c.Worker(), ch)
	if err != nil {
		return nil, err
	}
	unlock()
	ch.digest = ""
	told := toldChange(c)
	upid, err := c.StartTask("qmconfig", strconv.Itoa(c.VMID()), func(w world.Worker) error {
		v, unlock, err := Begin(c, w, ch)
		if err != nil {
			return err
		}
		defer unlock()
		if err := w.Sleep(w.State.Options.Timing.Configure); err != nil {
			return err
		}
		w.Log("update VM %d: %s", v.ID, told)
		return apply(w, c.Who, v, ch)
	})
	if err != nil || c.Params.Int("background_delay", 0) == 0 {
		return upid, err
	}
	return c.WaitForTask(upid, c.Params.Int("background_delay", 0))
}

func hash(s string) uint16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return uint16(h.Sum32())
}

// toldChange is a change as a task's log describes it.
func toldChange(c *world.Call) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		if slices.Contains([]string{"node", "vmid", "digest", "background_delay", "import-working-storage"}, k) {
			continue
		}
		value := c.Param(k)
		if k == "cipassword" {
			value = "<hidden>"
		}
		parts = append(parts, "-"+k, value)
	}
	return strings.Join(parts, " ")
}
