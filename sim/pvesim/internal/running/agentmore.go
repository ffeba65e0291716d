package running

import (
	"slices"
	"time"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// agentCommands are those that have a path of their own.
func agentCommands() []string {
	return []string{"exec", "exec-status", "file-read", "file-write", "fsfreeze-freeze", "fsfreeze-status", "fsfreeze-thaw", "fstrim", "get-fsinfo", "get-host-name",
		"get-memory-block-info", "get-memory-blocks", "get-osinfo", "get-time", "get-timezone", "get-users", "get-vcpus", "info", "network-get-interfaces", "ping",
		"set-user-password", "shutdown", "suspend-disk", "suspend-hybrid", "suspend-ram"}
}

func agentHandlers() map[string]world.Handler {
	const agent = "/nodes/{node}/qemu/{vmid}/agent/"
	out := map[string]world.Handler{
		"GET /nodes/{node}/qemu/{vmid}/agent":  world.Subdirs("name", agentCommands()...),
		"POST /nodes/{node}/qemu/{vmid}/agent": agentCommand,
		"POST " + agent + "exec":               agentExec,
		"GET " + agent + "exec-status":         agentExecStatus,
		"GET " + agent + "file-read":           agentFileRead,
		"POST " + agent + "file-write":         agentFileWrite,
		"POST " + agent + "set-user-password":  agentPassword,
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
func simpleAgentCommands() map[string]world.Handler {
	return map[string]world.Handler{
		"ping":                   agentPing,
		"info":                   agentInfo,
		"network-get-interfaces": agentInterfaces,
		"get-host-name":          agentHostName,
		"get-osinfo":             agentOSInfo,
		"get-time":               agentSays(func(*world.VM) any { return time.Now().UnixNano() }),
		"get-timezone":           agentSays(func(*world.VM) any { return map[string]any{"offset": 0, "zone": "UTC"} }),
		"get-users":              agentSays(func(*world.VM) any { return []any{} }),
		"get-vcpus":              agentSays(guestCPUs),
		"get-memory-blocks":      agentSays(func(*world.VM) any { return []any{} }),
		"get-memory-block-info":  agentSays(func(*world.VM) any { return map[string]any{"size": int64(128 * model.MiB)} }),
		"get-fsinfo":             agentFileSystems,
		"fsfreeze-status":        agentSays(func(v *world.VM) any { return map[bool]string{true: "frozen", false: "thawed"}[v.Frozen] }),
		"fsfreeze-freeze":        agentSays(func(v *world.VM) any { return freezeFS(v, true) }),
		"fsfreeze-thaw":          agentSays(func(v *world.VM) any { return freezeFS(v, false) }),
		"fstrim": agentSays(func(*world.VM) any {
			return map[string]any{"paths": []any{map[string]any{"path": "/", "trimmed": 0, "minimum": 0}}}
		}),
		"suspend-disk": agentShutdown,
		"shutdown":     agentShutdown,
	}
}

// agentSays is a command whose answer needs nothing of the guest but its agent.
func agentSays(what func(v *world.VM) any) world.Handler {
	return func(c *world.Call) (any, error) {
		if _, err := agent(c); err != nil {
			return nil, err
		}
		v, err := c.VM()
		if err != nil {
			return nil, err
		}
		return result(what(v)), nil
	}
}

func guestCPUs(v *world.VM) any {
	out := []any{}
	for i := range v.CPUs() {
		out = append(out, map[string]any{"logical-id": i, "online": true, "can-offline": i > 0})
	}
	return out
}

// freezeFS returns how many file systems it concerned.
func freezeFS(v *world.VM, freeze bool) int {
	was := v.Frozen
	v.Frozen = freeze
	return answer.Flag(was != freeze)
}

func agentFileSystems(c *world.Call) (any, error) {
	if _, err := agent(c); err != nil {
		return nil, err
	}
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	size := v.DiskSize(c.State)
	disk := map[string]any{"bus-type": "scsi", "bus": 0, "target": 0, "unit": 0, "dev": "/dev/sda1", "pci-controller": map[string]any{"domain": 0, "bus": 9, "slot": 1, "function": 0}}
	if key := c.State.BootDisk(v.Conf); key != "" {
		if serial := c.State.Props(key, v.Conf[key])["serial"]; serial != "" {
			disk["serial"] = serial
		}
	}
	return result([]any{map[string]any{"name": "sda1", "mountpoint": "/", "type": "ext4", "total-bytes": size, "used-bytes": min(size, int64(2*model.GiB)), "disk": []any{disk}}}), nil
}

func agentShutdown(c *world.Call) (any, error) {
	if _, err := askAgent(c, func(m hypervisor.Guest) (any, error) { return nil, m.Shutdown() }); err != nil {
		return nil, err
	}
	return result(nil), nil
}

// agentPassword sets a user's password with the guest's own program.
func agentPassword(c *world.Call) (any, error) {
	line := []byte(c.Param("username") + ":" + c.Param("password") + "\n")
	argv := []string{"chpasswd"}
	if c.Params.Bool("crypted") {
		argv = append(argv, "-e")
	}
	if _, err := askAgent(c, func(m hypervisor.Guest) (int, error) { return m.AgentExec(argv, line) }); err != nil {
		return nil, err
	}
	return result(map[string]any{}), nil
}

// agentCommand is the older way to say the simple commands.
func agentCommand(c *world.Call) (any, error) {
	if h := simpleAgentCommands()[c.Param("command")]; h != nil && slices.Contains(agentCommands(), c.Param("command")) {
		return h(c)
	}
	return nil, answer.Die("Agent error: The command %s has not been found", c.Param("command"))
}
