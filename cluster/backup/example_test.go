package backup_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/cps-gpu/homelab/cluster/backup"
	"github.com/cps-gpu/homelab/secret"
)

// A backup is written for those who may read it, and read with their private key.
func Example() {
	key, _ := age.GenerateX25519Identity() // age-keygen
	to, err := backup.Recipients(key.Recipient().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	var file bytes.Buffer
	_, err = backup.Write(&file, to, nil, backup.Contents{
		Manifest: backup.Manifest{Cluster: "lab", Snapshot: "on-demand", Size: 8, SHA256: "16a0eeb0791b6c92451fd284dd9f599e0a7dbe7f6ebea6e2d2d06c7f74aec112"},
		Token:    secret.New("K10…::server:…"),
	}, strings.NewReader("snapshot"))
	fmt.Println(err, strings.Contains(file.String(), "snapshot"))

	b, err := backup.Open(&file, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot, err := io.ReadAll(b)
	fmt.Println(b.Cluster, string(snapshot), err)
	// Output:
	// <nil> false
	// lab snapshot <nil>
}
