package harvester

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cps-gpu/homelab/converge"
)

const (
	// consoleContainer is the container of a machine's pod that prints the serial console
	// (pkg/virt-controller/services/serialconsolelog.go of KubeVirt).
	consoleContainer = "guest-console-log"
	instanceLabel    = "vm.kubevirt.io/name"
	consoleLines     = 20000

	beginMark = "homelab-host-keys-begin"
	keyMark   = "homelab-host-key "
	endMark   = "homelab-host-keys-end "
)

// HostKeyFile is where cloud-init runs [HostKeyScript] at every boot.
const HostKeyFile = "/var/lib/cloud/scripts/per-boot/homelab-host-keys"

// HostKeyScript is the script by which a machine writes its public host keys to its serial console, where
// [Client.HostKeys] reads them. It belongs at [HostKeyFile], with mode 0755.
const HostKeyScript = `#!/bin/sh
# Readers of this machine's console, by Harvester's API, know it by these keys over SSH.
keys=/run/homelab-host-keys
cat /etc/ssh/ssh_host_*_key.pub >$keys || exit 0
sum=$(sha256sum $keys | cut -d ' ' -f 1)
{
  printf '\n` + beginMark + `\n'
  while read -r key; do printf '` + keyMark + `%s\n' "$key"; done <$keys
  printf '` + endMark + `%s\n' "$sum"
} >/dev/ttyS0
`

// HostKeys returns the public host keys ("ssh-ed25519 AAAA…") that a running machine of ours has written to its console at its last boot; none
// if it has not yet, or none that arrived whole.
func (c *Client) HostKeys(ctx context.Context, vm *VM) ([]string, error) {
	if !c.Owns(vm) {
		return nil, converge.Permanent(fmt.Errorf("%s is not ours", vm))
	}
	pods, err := c.kube.List(ctx, podKind().apiVersion, podKind().name, c.namespace, instanceLabel+"="+vm.Name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pods, func(u unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		return phase == "Running" && u.GetDeletionTimestamp() == nil
	})
	if i < 0 {
		return nil, nil
	}
	log, err := c.kube.PodLog(ctx, c.namespace, pods[i].GetName(), consoleContainer, consoleLines, false)
	if err != nil {
		return nil, err
	}
	return parseHostKeys([]byte(log)), nil
}

// parseHostKeys finds the keys of the last boot in a console's log. Kernels and loaders write there too: what is
// not whole, by its checksum, does not count, and then the one before it does not either, as the keys may be others.
func parseHostKeys(log []byte) []string {
	at := bytes.LastIndex(log, []byte(beginMark))
	if at < 0 {
		return nil
	}
	var lines []string
	for line := range bytes.Lines(log[at:]) {
		text := strings.TrimRight(string(line), "\r\n")
		if i := strings.LastIndex(text, endMark); i >= 0 {
			sum := sha256.Sum256([]byte(strings.Join(lines, "\n") + "\n"))
			if strings.TrimSpace(text[i+len(endMark):]) != hex.EncodeToString(sum[:]) {
				return nil
			}
			return parseKeys(lines)
		}
		if i := strings.LastIndex(text, keyMark); i >= 0 {
			lines = append(lines, text[i+len(keyMark):])
		}
	}
	return nil
}

// parseKeys reads lines as in a public key's file; all of them, or none. A key is its type and its text: what it is
// for people is left out.
func parseKeys(lines []string) []string {
	var out []string
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) < 2 || !isKey(words[0], words[1]) {
			return nil
		}
		out = append(out, words[0]+" "+words[1])
	}
	return out
}

// isKey reports whether a text is a key of a type: it begins with its type (RFC 4253, 6.6).
func isKey(kind, text string) bool {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) <= 4+len(kind) {
		return false
	}
	return binary.BigEndian.Uint32(raw) == uint32(len(kind)) && string(raw[4:4+len(kind)]) == kind //nolint:gosec // a word of a line
}

// KnownHostKeys are the keys that [Client.SetHostKeys] has kept at a machine.
func (v *VM) KnownHostKeys() []string {
	text := v.object.GetAnnotations()[keysAnnotation]
	if text == "" {
		return nil
	}
	return parseKeys(strings.Split(text, "\n"))
}

// SetHostKeys keeps a machine's public host keys with it, for other computers.
func (c *Client) SetHostKeys(ctx context.Context, vm *VM, keys []string) error {
	if err := c.mayChange(vm); err != nil {
		return err
	}
	lines := parseKeys(keys)
	if lines == nil {
		return fmt.Errorf("%s: there is a text among its host keys that is none", vm)
	}
	slices.Sort(lines)
	text := strings.Join(lines, "\n")
	if vm.object.GetAnnotations()[keysAnnotation] == text {
		return nil
	}
	u, err := c.read(ctx, vmKind(), c.namespace, vm.Name)
	switch {
	case err != nil:
		return err
	case u == nil || string(u.GetUID()) != vm.UID || !c.owns(u, vm.Name):
		return converge.Transient(fmt.Errorf("%s is no longer the one that was seen", vm))
	}
	annotations := u.GetAnnotations()
	annotations[keysAnnotation] = text
	u.SetAnnotations(annotations)
	if err := c.kube.Update(ctx, u); err != nil {
		return err
	}
	vm.object = u
	return nil
}
