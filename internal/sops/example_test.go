package sops_test

import (
	"fmt"
	"os"

	"github.com/cps-gpu/homelab/internal/sops"
)

func ExampleRead() {
	_ = os.Setenv("SOPS_AGE_KEY_FILE", "testdata/keys.txt")
	defer func() { _ = os.Unsetenv("SOPS_AGE_KEY_FILE") }()

	token, err := sops.Read("testdata/age.yaml", "proxmox.token")
	fmt.Println(token, len(token.Reveal()), err)

	_, err = sops.Read("testdata/age.yaml", "proxmox.tokn")
	fmt.Println(err)
	// Output:
	// [secret] 14 <nil>
	// secret file testdata/age.yaml: the file has no such value as proxmox.tokn: there is no key "tokn": did you mean "token"?
}
