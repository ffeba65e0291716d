package pvesim

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// changing is a change of a configuration under way. Each option goes into the
// pending section first and is written at once; only then the section is applied,
// as far as that is possible (PVE/API2/Qemu.pm, update_vm_api).
type changing struct {
	w        worker
	who      identity
	v        *vm
	ch       change
	order    []string        // what the VM boots from, as it will be
	modified map[string]bool // options of this change
}

// apply makes a change, in an order that nobody should rely on. An option that fails
// leaves those behind it undone and those before it pending: nothing is put back.
func (w worker) apply(who identity, v *vm, ch change) error {
	g := &changing{w: w, who: who, v: v, ch: ch, order: w.s.bootOrder(v.conf["boot"]), modified: map[string]bool{}}
	for _, k := range g.reverted() {
		if err := g.remove(k); err != nil {
			return err
		}
	}
	keys := slices.Collect(maps.Keys(g.ch.set))
	slices.SortFunc(keys, func(a, b string) int { return int(hashed(a)) - int(hashed(b)) })
	for _, k := range keys {
		if err := g.set(k, g.ch.set[k]); err != nil {
			return err
		}
	}
	v.dropUnchanged()
	errs := map[string]string{}
	if v.running {
		g.hotplug(errs)
	} else if err := g.w.applyPending(who, v, errs); err != nil {
		return err
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(g.modified)), isDrive) {
		w.s.replug(v)
	}
	if len(errs) > 0 {
		return &apiError{status: http.StatusBadRequest, text: "Parameter verification failed.", params: errs}
	}
	return nil
}

// reverted turns what is to be reverted into options to set and to delete, and
// returns all of the latter.
func (g *changing) reverted() []string {
	g.ch.set = maps.Clone(g.ch.set)
	if g.ch.set == nil {
		g.ch.set = map[string]string{}
	}
	remove := slices.Clone(g.ch.delete)
	for _, k := range g.ch.revert {
		if now, there := g.v.conf[k]; there {
			g.ch.set[k] = now
		} else if g.v.pending[k] != "" {
			remove = append(remove, k)
		}
	}
	return remove
}

// bootOrder is what a VM boots from; nil for the order of old, and for none.
func (s *state) bootOrder(boot string) []string {
	return splitList(s.props("boot", boot)["order"])
}

func printBootOrder(devices []string) string {
	if len(devices) == 0 {
		return " "
	}
	return "order=" + strings.Join(devices, ";")
}

// hold makes a value pending, or with an empty one the option's end.
func (v *vm) hold(key, value string) {
	if v.pending == nil {
		v.pending = map[string]string{}
	}
	v.pending[key] = value
	v.changed()
}

// remove makes the deletion of an option pending. Disks that are out of use and tags
// go at once.
func (g *changing) remove(k string) error {
	waiting := g.v.pending[k]
	value := g.v.conf[k]
	if value == "" {
		value = waiting
	}
	if value == "" {
		g.w.log("cannot delete '%s' - not set in current configuration!", k)
		return nil
	}
	if err := g.mayRemove(k, value); err != nil {
		return err
	}
	g.modified[k] = true
	delete(g.v.pending, k)
	if i := slices.Index(g.order, k); i >= 0 {
		g.order = slices.Delete(g.order, i, i+1)
		g.v.hold("boot", printBootOrder(g.order))
		g.modified["boot"] = true
	}
	switch {
	case unusedKey.MatchString(k):
		return g.w.free(g.who, g.v, k, value)
	case k == "tags":
		g.v.unset(k)
		return nil
	case isDrive(k) && waiting != "":
		g.w.release(g.v, g.w.s.props(k, value))
	}
	g.v.hold(k, "")
	if g.ch.force {
		if g.v.forced == nil {
			g.v.forced = map[string]bool{}
		}
		g.v.forced[k] = true
	}
	return nil
}

func (g *changing) mayRemove(k, value string) error {
	protected := g.v.conf["protection"] == "1"
	switch {
	case protected && unusedKey.MatchString(k):
		return die("can't remove unused disk '%s' - protection mode enabled", value)
	case protected && isDrive(k):
		return die("can't remove drive '%s' - protection mode enabled", k)
	case serialKey.MatchString(k) && value != "socket" && !g.who.root():
		return die("only root can delete '%s' config for real devices", k)
	case k == "tags":
		return g.w.s.mayTag(g.who, g.v.id, value, "")
	}
	return g.w.s.mayChange(g.who, g.v.id, k, value)
}

var serialKey = regexp.MustCompile(`^serial\d+$`)

// set makes a value pending.
func (g *changing) set(k, value string) error {
	g.modified[k] = true
	old := g.v.conf[k]
	if waiting := g.v.pending[k]; waiting != "" && waiting == value {
		return nil
	}
	if serialKey.MatchString(k) && (old != "" && old != "socket" || value != "socket") && !g.who.root() {
		return die("only root can modify '%s' config for real devices", k)
	}
	if k == "tags" {
		if err := g.w.s.mayTag(g.who, g.v.id, old, value); err != nil {
			return err
		}
	}
	for _, x := range []string{old, value} {
		if err := g.w.s.mayChange(g.who, g.v.id, k, x); err != nil {
			return err
		}
	}
	if isDrive(k) {
		return g.setDrive(k, value)
	}
	if err := g.checkSet(k, value); err != nil {
		return err
	}
	switch k {
	case "cipassword":
		if !windowsType.MatchString(g.v.conf["ostype"]) && !hashedPassword.MatchString(value) {
			value = passwordHash(value)
		}
		g.v.set(k, value)
		return nil
	case "boot":
		if order := g.w.s.bootOrder(value); len(order) > 0 {
			value = printBootOrder(order)
			if g.v.conf["bootdisk"] != "" {
				g.v.hold("bootdisk", "")
			}
		}
	case "ostype":
		if pinned := g.w.s.pinnedMachine(g.v.conf["machine"], value); g.ch.set["machine"] == "" && g.v.pending["machine"] == "" &&
			!g.modified["machine"] && pinned != "" {
			g.w.log("pinning machine type to '%s' for Windows guest OS", g.w.s.props("machine", pinned)["type"])
			g.v.hold("machine", pinned)
		}
	}
	text, err := g.w.s.written(k, g.w.s.normal(k, value))
	if err != nil {
		return err
	}
	if text == "" && k != "description" { // nobody can read it back
		return nil
	}
	g.v.hold(k, text)
	return nil
}

// checkSet are the checks that Proxmox makes with an option in hand.
func (g *changing) checkSet(k, value string) error {
	switch k {
	case "vga":
		return g.w.s.checkVGA(value)
	case "machine":
		return g.w.s.checkMachine(value)
	case "boot":
		for _, dev := range g.w.s.bootOrder(value) {
			if g.v.conf[dev] == "" && g.v.pending[dev] == "" && g.ch.set[dev] == "" || slices.Contains(g.ch.delete, dev) {
				return die("invalid bootorder: device '%s' does not exist'", dev)
			}
		}
	}
	return nil
}

// setDrive makes a drive pending, with its volume. What was pending in its place
// is out of use.
func (g *changing) setDrive(k, value string) error {
	if k == "tpmstate0" {
		was, is := g.w.s.props(k, g.v.conf[k]), g.w.s.props(k, value)
		if was["file"] != "" && was["file"] == is["file"] && tpmVersion(was) != tpmVersion(is) {
			return die("cannot change TPM state version after creation")
		}
	}
	if waiting := g.v.pending[k]; waiting != "" {
		g.w.release(g.v, g.w.s.props(k, waiting))
	}
	if checkFormat(k, g.w.s.configKeys()[k].Format, value) != "" { // no such drive can hold that: it is passed over
		return nil
	}
	var made allocated
	printed, err := g.w.makeDrive(g.v, k, value, &made)
	if err != nil {
		made.undo()
		return err
	}
	if g.w.s.vms[g.v.id] != g.v { // gone while we allocated
		made.undo()
		return die("unable to find configuration file for VM %d on node '%s'", g.v.id, g.v.node)
	}
	g.v.hold(k, printed)
	g.v.dropUsed(g.w.s)
	if asked := g.w.s.props(k, value); len(g.order) > 0 && isCDROM(asked) && !isCloudInit(asked["file"]) && !slices.Contains(g.order, k) {
		g.order = append(g.order, k)
		g.v.hold("boot", printBootOrder(g.order))
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
func (v *vm) dropUnchanged() {
	for k, wanted := range v.pending {
		now, there := v.conf[k]
		if wanted == "" && !there || wanted != "" && there && now == wanted {
			delete(v.pending, k)
			v.changed()
		}
	}
}

// dropUsed forgets that volumes are out of use which are in use again.
func (v *vm) dropUsed(s *state) {
	for _, conf := range []map[string]string{v.conf, v.pending} {
		for _, k := range drives(conf) {
			file := s.props(k, conf[k])["file"]
			for u, volid := range v.conf {
				if unusedKey.MatchString(u) && volid == file {
					v.unset(u)
				}
			}
		}
	}
}

// written is a value as a configuration file gives it back: without blanks around
// it, numbers as numbers, and an empty one as a blank. It is empty for what cannot be
// read back.
func (s *state) written(key, value string) (string, error) {
	if key == "description" {
		return strings.TrimRight(value, " \t\r\n"), nil
	}
	if strings.ContainsAny(value, "\n\r") {
		return "", die("unable to parse value of '%s' - property contains a line feed", key)
	}
	value = strings.TrimSpace(value)
	p := s.configKeys()[key]
	switch {
	case value == "" && p != nil && checkFormat(key, p.Format, " ") != "":
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
