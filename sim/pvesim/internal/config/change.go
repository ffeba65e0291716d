package config

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/schema"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/storages"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// changing is a change of a configuration under way. Each option goes into the
// pending section first and is written at once; only then the section is applied,
// as far as that is possible (PVE/API2/Qemu.pm, update_vm_api).
type changing struct {
	w        world.Worker
	who      world.Identity
	v        *world.VM
	ch       Change
	order    []string        // what the VM boots from, as it will be
	modified map[string]bool // options of this change
}

// apply makes a change, in an order that nobody should rely on. An option that fails
// leaves those behind it undone and those before it pending: nothing is put back.
func apply(w world.Worker, who world.Identity, v *world.VM, ch Change) error {
	g := &changing{w: w, who: who, v: v, ch: ch, order: bootOrder(w.State, v.Conf["boot"]), modified: map[string]bool{}}
	for _, k := range g.resolveReverts() {
		if err := g.remove(k); err != nil {
			return err
		}
	}
	keys := slices.Collect(maps.Keys(g.ch.set))
	slices.SortFunc(keys, func(a, b string) int { return int(hash(a)) - int(hash(b)) })
	for _, k := range keys {
		if err := g.set(k, g.ch.set[k]); err != nil {
			return err
		}
	}
	dropUnchanged(v)
	errs := map[string]string{}
	if v.Running {
		g.hotplug(errs)
	} else if err := ApplyPending(g.w, who, v, errs); err != nil {
		return err
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(g.modified)), world.IsDrive) {
		replug(w.State, v)
	}
	if len(errs) > 0 {
		return &answer.Error{Status: http.StatusBadRequest, Text: "Parameter verification failed.", Params: errs}
	}
	return nil
}

// resolveReverts turns what is to be reverted into options to set and to delete, and
// returns all of the latter.
func (g *changing) resolveReverts() []string {
	g.ch.set = maps.Clone(g.ch.set)
	if g.ch.set == nil {
		g.ch.set = map[string]string{}
	}
	remove := slices.Clone(g.ch.Delete)
	for _, k := range g.ch.revert {
		if now, there := g.v.Conf[k]; there {
			g.ch.set[k] = now
		} else if g.v.Pending[k] != "" {
			remove = append(remove, k)
		}
	}
	return remove
}

// bootOrder is what a VM boots from; nil for the order of old, and for none.
func bootOrder(s *world.State, boot string) []string {
	return schema.SplitList(s.Props("boot", boot)["order"])
}

// PrintBootOrder is the option boot for these devices.
func PrintBootOrder(devices []string) string {
	if len(devices) == 0 {
		return " "
	}
	return "order=" + strings.Join(devices, ";")
}

// hold makes a value pending, or with an empty one the option's end.
func hold(v *world.VM, key, value string) {
	if v.Pending == nil {
		v.Pending = map[string]string{}
	}
	v.Pending[key] = value
	v.Invalidate()
}

// remove makes the deletion of an option pending. Disks that are out of use and tags
// go at once.
func (g *changing) remove(k string) error {
	waiting := g.v.Pending[k]
	value := g.v.Conf[k]
	if value == "" {
		value = waiting
	}
	if value == "" {
		g.w.Log("cannot delete '%s' - not set in current configuration!", k)
		return nil
	}
	if err := g.mayRemove(k, value); err != nil {
		return err
	}
	g.modified[k] = true
	delete(g.v.Pending, k)
	if i := slices.Index(g.order, k); i >= 0 {
		g.order = slices.Delete(g.order, i, i+1)
		hold(g.v, "boot", PrintBootOrder(g.order))
		g.modified["boot"] = true
	}
	switch {
	case world.UnusedKey.MatchString(k):
		return free(g.w, g.who, g.v, k, value)
	case k == "tags":
		g.v.Unset(k)
		return nil
	case world.IsDrive(k) && waiting != "":
		letGo(g.w, g.v, g.w.State.Props(k, value))
	}
	hold(g.v, k, "")
	if g.ch.Force {
		if g.v.Forced == nil {
			g.v.Forced = map[string]bool{}
		}
		g.v.Forced[k] = true
	}
	return nil
}

func (g *changing) mayRemove(k, value string) error {
	protected := g.v.Conf["protection"] == "1"
	switch {
	case protected && world.UnusedKey.MatchString(k):
		return answer.Die("can't remove unused disk '%s' - protection mode enabled", value)
	case protected && world.IsDrive(k):
		return answer.Die("can't remove drive '%s' - protection mode enabled", k)
	case serialKey.MatchString(k) && value != "socket" && !g.who.Root():
		return answer.Die("only root can delete '%s' config for real devices", k)
	case k == "tags":
		return mayTag(g.w.State, g.who, g.v.ID, value, "")
	}
	return mayChange(g.w.State, g.who, g.v.ID, k, value)
}

var serialKey = regexp.MustCompile(`^serial\d+$`)

// set makes a value pending.
func (g *changing) set(k, value string) error {
	g.modified[k] = true
	old := g.v.Conf[k]
	if waiting := g.v.Pending[k]; waiting != "" && waiting == value {
		return nil
	}
	if serialKey.MatchString(k) && (old != "" && old != "socket" || value != "socket") && !g.who.Root() {
		return answer.Die("only root can modify '%s' config for real devices", k)
	}
	if k == "tags" {
		if err := mayTag(g.w.State, g.who, g.v.ID, old, value); err != nil {
			return err
		}
	}
	for _, x := range []string{old, value} {
		if err := mayChange(g.w.State, g.who, g.v.ID, k, x); err != nil {
			return err
		}
	}
	if world.IsDrive(k) {
		return g.setDrive(k, value)
	}
	if err := g.checkSet(k, value); err != nil {
		return err
	}
	switch k {
	case "cipassword":
		if !windowsType.MatchString(g.v.Conf["ostype"]) && !hashedPassword.MatchString(value) {
			value = passwordHash(value)
		}
		g.v.Set(k, value)
		return nil
	case "boot":
		if order := bootOrder(g.w.State, value); len(order) > 0 {
			value = PrintBootOrder(order)
			if g.v.Conf["bootdisk"] != "" {
				hold(g.v, "bootdisk", "")
			}
		}
	case "ostype":
		if pinned := PinnedMachine(g.w.State, g.v.Conf["machine"], value); g.ch.set["machine"] == "" && g.v.Pending["machine"] == "" &&
			!g.modified["machine"] && pinned != "" {
			g.w.Log("pinning machine type to '%s' for Windows guest OS", g.w.State.Props("machine", pinned)["type"])
			hold(g.v, "machine", pinned)
		}
	}
	text, err := FileValue(g.w.State, k, Normal(g.w.State, k, value))
	if err != nil {
		return err
	}
	if text == "" && k != "description" { // nobody can read it back
		return nil
	}
	hold(g.v, k, text)
	return nil
}

// checkSet are the checks that Proxmox makes with an option in hand.
func (g *changing) checkSet(k, value string) error {
	switch k {
	case "vga":
		return CheckVGA(g.w.State, value)
	case "machine":
		return CheckMachine(g.w.State, value)
	case "boot":
		for _, dev := range bootOrder(g.w.State, value) {
			if g.v.Conf[dev] == "" && g.v.Pending[dev] == "" && g.ch.set[dev] == "" || slices.Contains(g.ch.Delete, dev) {
				return answer.Die("invalid bootorder: device '%s' does not exist'", dev)
			}
		}
	}
	return nil
}

// setDrive makes a drive pending, with its volume. What was pending in its place
// is out of use.
func (g *changing) setDrive(k, value string) error {
	if k == "tpmstate0" {
		was, is := g.w.State.Props(k, g.v.Conf[k]), g.w.State.Props(k, value)
		if was["file"] != "" && was["file"] == is["file"] && tpmVersion(was) != tpmVersion(is) {
			return answer.Die("cannot change TPM state version after creation")
		}
	}
	if waiting := g.v.Pending[k]; waiting != "" {
		letGo(g.w, g.v, g.w.State.Props(k, waiting))
	}
	if schema.CheckFormat(k, g.w.State.ConfigKeys()[k].Format, value) != "" { // no such drive can hold that: it is passed over
		return nil
	}
	var made storages.Allocations
	printed, err := MakeDrive(g.w, g.v, k, value, &made)
	if err != nil {
		made.Undo()
		return err
	}
	if g.w.State.VMs[g.v.ID] != g.v { // gone while we allocated
		made.Undo()
		return answer.Die("unable to find configuration file for VM %d on node '%s'", g.v.ID, g.v.Node)
	}
	hold(g.v, k, printed)
	dropUsed(g.v, g.w.State)
	if asked := g.w.State.Props(k, value); len(g.order) > 0 && world.IsCDROM(asked) &&
		!world.IsCloudInit(asked["file"]) && !slices.Contains(g.order, k) {
		g.order = append(g.order, k)
		hold(g.v, "boot", PrintBootOrder(g.order))
		g.modified["boot"] = true
	}
	return nil
}

func tpmVersion(d map[string]string) string {
	if d["version"] == "" {
		return "v1.2"
	}
	return d["version"]
}

// dropUnchanged forgets what is pending and would change nothing.
func dropUnchanged(v *world.VM) {
	for k, wanted := range v.Pending {
		now, there := v.Conf[k]
		if wanted == "" && !there || wanted != "" && there && now == wanted {
			delete(v.Pending, k)
			v.Invalidate()
		}
	}
}

// dropUsed forgets that volumes are out of use which are in use again.
func dropUsed(v *world.VM, s *world.State) {
	for _, conf := range []map[string]string{v.Conf, v.Pending} {
		for _, k := range world.Drives(conf) {
			file := s.Props(k, conf[k])["file"]
			for u, volid := range v.Conf {
				if world.UnusedKey.MatchString(u) && volid == file {
					v.Unset(u)
				}
			}
		}
	}
}

// FileValue is a value as a configuration file gives it back: without blanks around
// it, numbers as numbers, and an empty one as a blank. It is empty for what cannot be
// read back.
func FileValue(s *world.State, key, value string) (string, error) {
	if key == "description" {
		return strings.TrimRight(value, " \t\r\n"), nil
	}
	if value == request.Null {
		return "", answer.Die("unable to parse value of '%s' - got undefined value", key)
	}
	if strings.ContainsAny(value, "\n\r") {
		return "", answer.Die("unable to parse value of '%s' - property contains a line feed", key)
	}
	value = strings.TrimSpace(value)
	p := s.ConfigKeys()[key]
	switch {
	case value == "" && p != nil && schema.CheckFormat(key, p.Format, " ") != "":
		return "", nil
	case value == "":
		return " ", nil
	case p == nil:
		return value, nil
	case p.Type == "integer":
		if n, err := strconv.Atoi(value); err == nil {
			return strconv.Itoa(n), nil
		}
	case p.Type == "string" && p.Format.Name == "" && p.Format.Keys == nil && len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"':
		return value[1 : len(value)-1], nil
	}
	return value, nil
}
