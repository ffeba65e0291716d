package iso_test

import (
	"fmt"

	"github.com/cps-gpu/homelab/sim/iso"
)

// A disc with a machine's first-boot data, and what the machine reads of it.
func Example() {
	image, err := iso.Write("cidata", map[string][]byte{"meta-data": []byte("instance-id: node1\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	files, label, err := iso.Read(image)
	fmt.Println(label, string(files["meta-data"]), err)
	// Output:
	// cidata instance-id: node1
	//  <nil>
}
