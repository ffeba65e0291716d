package pvesim

import (
	"slices"
	"time"
)

// agentCommands are those that have a path of their own.
func agentCommands() []string {
	return []string{"exec", "exec-status", "file-read", "file-write", "fsfreeze-freeze", "fsfreeze-status", "fsfreeze-thaw", "fstrim", "get-fsinfo", "get-host-name",
		"get-memory-block-info", "get-memory-blocks", "get-osinfo", "get-time", "get-timezone", "get-users", "get-vcpus", "info", "network-get-interfaces", "ping",
		"set-user-password", "shutdown", "suspend-disk", "suspend-hybrid", "suspend-ram"}
}

func agentHandlers() map[string]handler {
	const agent = "/nodes/{node}/qemu/{vmid}/agent/"
	out := map[string]handler{
		"GET /nodes/{node}/qemu/{vmid}/agent":  subdirs("name", agentCommands()...),
		"POST /nodes/{node}/qemu/{vmid}/agent": (*call).agentCommand,
		"POST " + agent + "exec":               (*call).agentExec,
		"GET " + agent + "exec-status":         (*call).agentExecStatus,
		"GET " + agent + "file-read":           (*call).agentFileRead,
		"POST " + agent + "file-write":         (*call).agentFileWrite,
		"POST " + agent + "set-user-password":  (*call).agentPassword,
	}
	for name, h := range simpleAgentCommands() {
		verb := "GET "
		if name[:4] != "get-" && name != "info" && name != "network-get-interfaces" {
			verb = "POST "
		}
		out[verb+agent+name] = h
	}
	return out
}

// simpleAgentCommands take no parameters; POST agent knows them by name as well.
func simpleAgentCommands() map[string]handler {
	return map[string]handler{
		"ping":                   (*call).agentPing,
		"info":                   (*call).agentInfo,
		"network-get-interfaces": (*call).agentInterfaces,
		"get-host-name":          (*call).agentHostName,
		"get-osinfo":             (*call).agentOSInfo,
		"get-time":               agentSays(func(*vm) any { return time.Now().UnixNano() }),
		"get-timezone":           agentSays(func(*vm) any { return map[string]any{"offset": 0, "zone": "UTC"} }),
		"get-users":              agentSays(func(*vm) any { return []any{} }),
		"get-vcpus":              agentSays(guestCPUs),
		"get-memory-blocks":      agentSays(func(*vm) any { return []any{} }),
		"get-memory-block-info":  agentSays(func(*vm) any { return map[string]any{"size": int64(128 * MiB)} }),
		"get-fsinfo":             (*call).agentFileSystems,
		"fsfreeze-status":        agentSays(func(v *vm) any { return map[bool]string{true: "frozen", false: "thawed"}[v.frozen] }),
		"fsfreeze-freeze":        agentSays(func(v *vm) any { return v.freezeFS(true) }),
		"fsfreeze-thaw":          agentSays(func(v *vm) any { return v.freezeFS(false) }),
		"fstrim": agentSays(func(*vm) any {
			return map[string]any{"paths": []any{map[string]any{"path": "/", "trimmed": 0, "minimum": 0}}}
		}),
		"suspend-ram":    (*call).agentSuspend,
		"suspend-hybrid": (*call).agentSuspend,
		"suspend-disk":   (*call).agentShutdown,
		"shutdown":       (*call).agentShutdown,
	}
}

// agentSays is a command whose answer needs nothing of the guest but its agent.
func agentSays(what func(v *vm) any) handler {
	return func(c *call) (any, error) {
		if _, err := c.agent(); err != nil {
			return nil, err
		}
		v, err := c.vm()
		if err != nil {
			return nil, err
		}
		return result(what(v)), nil
	}
}

func guestCPUs(v *vm) any {
	out := []any{}
	for i := range v.cpus() {
		out = append(out, map[string]any{"logical-id": i, "online": true, "can-offline": i > 0})
	}
	return out
}

// freezeFS returns how many file systems it concerned.
func (v *vm) freezeFS(freeze bool) int {
	was := v.frozen
	v.frozen = freeze
	return boolInt(was != freeze)
}

func (c *call) agentFileSystems() (any, error) {
	if _, err := c.agent(); err != nil {
		return nil, err
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	size := v.diskSize(c.s)
	disk := map[string]any{"bus-type": "scsi", "bus": 0, "target": 0, "unit": 0, "dev": "/dev/sda1", "pci-controller": map[string]any{"domain": 0, "bus": 9, "slot": 1, "function": 0}}
	if key := c.s.bootDisk(v.conf); key != "" {
		if serial := c.s.props(key, v.conf[key])["serial"]; serial != "" {
			disk["serial"] = serial
		}
	}
	return result([]any{map[string]any{"name": "sda1", "mountpoint": "/", "type": "ext4", "total-bytes": size, "used-bytes": min(size, int64(2*GiB)), "disk": []any{disk}}}), nil
}

func (c *call) agentSuspend() (any, error) {
	if _, err := c.agent(); err != nil {
		return nil, err
	}
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	v.paused = true
	return result(map[string]any{}), nil
}

func (c *call) agentShutdown() (any, error) {
	if _, err := asked(c, func(m Guest) (any, error) { return nil, m.Shutdown() }); err != nil {
		return nil, err
	}
	return result(nil), nil
}

// agentPassword sets a user's password with the guest's own program.
func (c *call) agentPassword() (any, error) {
	line := []byte(c.param("username") + ":" + c.param("password") + "\n")
	argv := []string{"chpasswd"}
	if c.p.bool("crypted") {
		argv = append(argv, "-e")
	}
	if _, err := asked(c, func(m Guest) (int, error) { return m.AgentExec(argv, line) }); err != nil {
		return nil, err
	}
	return result(map[string]any{}), nil
}

// agentCommand is the older way to say the simple commands.
func (c *call) agentCommand() (any, error) {
	if h := simpleAgentCommands()[c.param("command")]; h != nil && slices.Contains(agentCommands(), c.param("command")) {
		return h(c)
	}
	return nil, die("Agent error: The command %s has not been found", c.param("command"))
}
