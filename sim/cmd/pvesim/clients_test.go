package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestGoProxmox lives a machine's life with the library that Cluster API's provider
// for Proxmox is made with, in the order of that provider: find the template by its
// tags, see what memory is left, clone, configure, resize, seed by an ISO of its own,
// tag, start, ask the guest agent, and away with it.
func TestGoProxmox(t *testing.T) {
	s := serve(t, "-model", clientsModel(t))
	client := proxmox.NewClient(s.line("endpoint")+"/api2/json", proxmox.WithHTTPClient(s.client()),
		proxmox.WithAPIToken("root@pam!pvesim", s.file("root-token")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	version, err := client.Version(ctx)
	require.NoError(t, err)
	assert.Equal(t, "9.2", version.Release)

	template := findTemplate(ctx, t, client)
	node, err := client.Node(ctx, template.Node)
	require.NoError(t, err)
	assert.EqualValues(t, 512<<30, node.Memory.Total)
	_, err = node.VirtualMachines(ctx)
	require.NoError(t, err)
	_, err = node.Containers(ctx)
	require.NoError(t, err)

	source, err := node.VirtualMachine(ctx, int(template.VMID))
	require.NoError(t, err)
	id, task, err := source.Clone(ctx, &proxmox.VirtualMachineCloneOptions{Name: "machine", Full: true, Storage: "vmdata", Pool: "lab", Target: "pve1"})
	require.NoError(t, err)
	done(ctx, t, task)
	vm, err := node.VirtualMachine(ctx, id)
	require.NoError(t, err)
	assert.Contains(t, vm.VirtualMachineConfig.SMBios1, "uuid=", "which becomes the node's provider ID")

	task, err = vm.Config(ctx, proxmox.VirtualMachineOption{Name: "sockets", Value: 1}, proxmox.VirtualMachineOption{Name: "cores", Value: 4},
		proxmox.VirtualMachineOption{Name: "memory", Value: 8192}, proxmox.VirtualMachineOption{Name: "net0", Value: "virtio,bridge=vmbr0,mtu=1500"})
	require.NoError(t, err)
	done(ctx, t, task)
	task, err = vm.ResizeDisk(ctx, "scsi0", "20G")
	require.NoError(t, err)
	done(ctx, t, task)
	vm, err = node.VirtualMachine(ctx, id)
	require.NoError(t, err)
	require.NoError(t, vm.CloudInit(ctx, "ide0", "#cloud-config\npackages: [qemu-guest-agent]\n",
		"instance-id: machine\nlocal-hostname: machine\n", "", "version: 2\nethernets: {eth0: {match: {macaddress: \""+strings.ToLower(vm.VirtualMachineConfig.Nets["net0"][7:24])+"\"}, dhcp4: true, nameservers: {addresses: [10.0.0.1]}}}\n"))
	task, err = vm.AddTag(ctx, "ip_net0_10.0.0.61")
	require.NoError(t, err)
	done(ctx, t, task)
	task, err = vm.Start(ctx)
	require.NoError(t, err)
	done(ctx, t, task)
	require.NoError(t, vm.WaitForAgent(ctx, 20))
	pid, err := vm.AgentExec(ctx, []string{"cloud-init", "status"}, "")
	require.NoError(t, err)
	status, err := vm.WaitForAgentExecExit(ctx, pid, 5)
	require.NoError(t, err)
	assert.Contains(t, status.OutData, "status: ")

	vm, err = node.VirtualMachine(ctx, id)
	require.NoError(t, err)
	require.NoError(t, vm.UnmountCloudInitISO(ctx, "ide0"))
	remove(ctx, t, client, node, id)
}

func findTemplate(ctx context.Context, t *testing.T, client *proxmox.Client) *proxmox.ClusterResource {
	t.Helper()
	cluster, err := client.Cluster(ctx)
	require.NoError(t, err)
	all, err := cluster.Resources(ctx, "vm")
	require.NoError(t, err)
	for _, r := range all {
		if r.Template == 1 && strings.Contains(r.Tags, "capi") {
			return r
		}
	}
	t.Fatal("no template with the tag capi")
	return nil
}

// remove stops and destroys, after having asked whether the ID is free.
func remove(ctx context.Context, t *testing.T, client *proxmox.Client, node *proxmox.Node, id int) {
	t.Helper()
	cluster, err := client.Cluster(ctx)
	require.NoError(t, err)
	free, err := cluster.CheckID(ctx, id)
	require.NoError(t, err)
	assert.False(t, free)
	vm, err := node.VirtualMachine(ctx, id)
	require.NoError(t, err)
	task, err := vm.Stop(ctx)
	require.NoError(t, err)
	done(ctx, t, task)
	task, err = vm.Delete(ctx, nil)
	require.NoError(t, err)
	done(ctx, t, task)
	free, err = cluster.CheckID(ctx, id)
	require.NoError(t, err)
	assert.True(t, free)
}

func done(ctx context.Context, t *testing.T, task *proxmox.Task) {
	t.Helper()
	require.NoError(t, task.Wait(ctx, 20*time.Millisecond, 20*time.Second))
	assert.True(t, task.IsSuccessful, "%s: %s", task.UPID, task.ExitStatus)
}

// TestOpenTofu runs the real program with the real provider, where they are there:
// PVESIM_TOFU names tofu or terraform, PVESIM_BPG the folder with
// terraform-provider-proxmox. What they ask is in testdata/clients of package
// pvesim, too, and asked again in every run of its tests.
func TestOpenTofu(t *testing.T) {
	program, provider := os.Getenv("PVESIM_TOFU"), os.Getenv("PVESIM_BPG")
	if program == "" || provider == "" {
		t.Skip("PVESIM_TOFU and PVESIM_BPG are not set: OpenTofu itself is not tried, only what it asked when it was recorded")
	}
	s := serve(t, "-model", clientsModel(t))
	dir := t.TempDir()
	config, err := os.ReadFile("testdata/main.tf")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), config, 0o600))
	rc := "provider_installation {\n  dev_overrides {\n    \"bpg/proxmox\" = \"" + provider + "\"\n  }\n  direct {}\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rc"), []byte(rc), 0o600))
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "rc"), "CHECKPOINT_DISABLE=1", "PROXMOX_VE_INSECURE=true",
			"PROXMOX_VE_ENDPOINT="+s.line("endpoint")+"/", "PROXMOX_VE_API_TOKEN=root@pam!pvesim="+s.file("root-token"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v\n%s", args, out)
	}
	run("apply", "-auto-approve", "-no-color")
	run("plan", "-no-color", "-detailed-exitcode") // 0: nothing to change
	run("apply", "-auto-approve", "-no-color", "-var=memory=8192")
	run("destroy", "-auto-approve", "-no-color")
	_, _, body := s.ask("GET", "/nodes/pve1/qemu", "root@pam!pvesim="+s.file("root-token"))
	assert.NotContains(t, body, `"vmid":200`)
	assert.Contains(t, body, `"vmid":9000`)
}
