package hostprep_test

import (
	"context"
	"fmt"

	xssh "golang.org/x/crypto/ssh"

	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// login is a shell of root on a simulated host, as Proxmox's installer leaves it.
func login(ctx context.Context) (remote.Runner, func(), error) {
	model := pvesim.OneGPU()
	model.Hosts[0].OS.Fresh = true
	sim := pvesim.New(model, pvesim.Options{})
	private, public, err := ssh.GenerateKey()
	if err != nil {
		return nil, nil, err
	}
	signer, err := xssh.ParsePrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	shell, err := sim.HostShell(ctx, "pve1", public)
	if err != nil {
		return nil, nil, err
	}
	key, err := ssh.ParseAuthorizedKey(shell.HostKey)
	if err != nil {
		return nil, nil, err
	}
	client := ssh.New(ssh.Config{Addr: shell.Address.String(), User: "root", Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key), Dial: sim.Network().Dial})
	return client, func() { _ = client.Close(); sim.Close() }, nil
}

// What would be changed, and why, is known before anything is.
func Example() {
	ctx := context.Background()
	root, done, err := login(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	state, err := hostprep.Observe(ctx, root)
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := hostprep.Spec{Owner: "an example", GPUs: true}
	changes, err := spec.Changes(state)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range changes {
		fmt.Println(c.What, c.Commands)
		for _, f := range c.Files {
			gone, come := f.Lines()
			fmt.Printf("  %s: %d lines go, %d come\n", f.Path, len(gone), len(come))
		}
	}
	fmt.Println("a reboot, since", spec.Reboot(state)[0])
	// Output:
	// kernel command line [[update-grub]]
	//   /etc/default/grub: 1 lines go, 1 come
	// modules loaded at boot []
	//   /etc/modules-load.d/homelab-vfio.conf: 0 lines go, 5 come
	// cards kept free of the host's drivers []
	//   /etc/modprobe.d/homelab-vfio.conf: 0 lines go, 11 come
	// initramfs of all kernels [[update-initramfs -u -k all]]
	// a reboot, since the kernel runs without iommu=pt
}
