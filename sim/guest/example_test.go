package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/iso"
)

// A machine boots from a seed ISO and answers the guest agent.
func Example() {
	seed, err := iso.Write("cidata", map[string][]byte{
		"meta-data":      []byte("instance-id: node1-1\n"),
		"user-data":      []byte("#cloud-config\nhostname: node1\npackages: [qemu-guest-agent]\nruncmd: [\"echo hello from $(hostname) > /etc/motd\"]\n"),
		"network-config": []byte("version: 2\nethernets: {eth0: {match: {macaddress: \"bc:24:11:00:00:01\"}, addresses: [10.0.0.11/24]}}\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := guest.New(guest.Config{
		Name: "node1", Disk: guest.NewBase("noble"), MACs: []string{"BC:24:11:00:00:01"}, CPUs: 2, Memory: 2 << 30,
		Seed: func() ([]byte, error) { return seed, nil }, Network: &guest.Network{}, Internet: guest.DefaultInternet(), Speed: 1000,
	})
	if err := m.Boot(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer m.Kill()
	for {
		motd, err := m.AgentReadFile("/etc/motd")
		if err == nil && bytes.HasSuffix(motd, []byte("\n")) { // echo writes word by word
			fmt.Print(string(motd))
			return
		}
		time.Sleep(time.Millisecond)
	}
	// Output: hello from node1
}
