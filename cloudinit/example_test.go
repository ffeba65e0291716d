package cloudinit_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/cps-gpu/homelab/cloudinit"
)

// The first-boot data of a worker with a scratch disk.
func ExampleRenderWorker() {
	seed, err := cloudinit.RenderWorker(cloudinit.Machine{
		Hostname:       "wk-gpu1",
		AuthorizedKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8qEhn0W2aE0lcXOvJHcqyqGjTRW9aTfGHLnrJWYlgd admin"},
		MAC:            "BC:24:11:AA:00:21",
		Address:        netip.MustParsePrefix("10.0.0.21/24"),
		Gateway:        netip.MustParseAddr("10.0.0.1"),
		Disks:          []cloudinit.Mount{{Serial: "scratch", Path: "/scratch"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := seed.Network.Render()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(network))

	image, err := seed.ISO() // attach this as a CD-ROM
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(image) > 0, strings.HasPrefix(seed.MetaData.InstanceID, "wk-gpu1-"))
	// Output:
	// version: 2
	// ethernets:
	//   eth0:
	//     match:
	//       macaddress: "bc:24:11:aa:00:21"
	//     set-name: eth0
	//     dhcp4: false
	//     addresses:
	//       - "10.0.0.21/24"
	//     routes:
	//       - to: "0.0.0.0/0"
	//         via: "10.0.0.1"
	// true true
}

// A guest that is done, with a warning, is done.
func ExampleParseStatus() {
	status, err := cloudinit.ParseStatus([]byte(`{"status": "done", "extended_status": "degraded done",
		"recoverable_errors": {"WARNING": ["could not set the locale"]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.Err(), status.Warnings())
	// Output: <nil> [WARNING: could not set the locale]
}
