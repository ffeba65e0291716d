package main

import (
	"os"
	"path/filepath"
	"strings"
)

// suite is another project's test suite.
type suite struct {
	name, module, version string
	tags                  string
	packages              []string
	only, skip            string            // patterns of the tests that alone are begun, and that are not
	apart                 bool              // each test can run alone, beside others
	needs                 []string          // programs, one of which has to be there
	model                 string            // of pvesim: a file, or one of its own
	files                 map[string]string // for downloads, by name: the simulated internet's URL, or empty for zeros
	prepare               func(dir string) error
	env                   func(s site, program string) []string
}

// site is the pvesim that a suite runs against.
type site struct {
	endpoint           string // https://127.0.0.1:port
	password           string // of root@pam
	tokenID, secret    string // of root's token
	sshPort, sshKey    string // root's SSH to the node, and the file of its key
	node, storage, dir string
}

// suites are those that are tried.
func suites() []suite {
	return []suite{{
		name: "go-proxmox", module: "github.com/luthermonson/go-proxmox", version: "v0.8.2",
		tags: "nodes containers", packages: []string{"./tests/integration"},
		// It needs a download of half a minute; if that is faster, it fails from a goroutine after its end,
		// which fails the next test.
		skip:  "^TestTask$",
		model: peersModel, files: map[string]string{"Core-current.iso": "", "ubuntu.iso": "", "alpine.tar.xz": "", "alpine-virt-3.14.1-1_amd64.tar.xz": ""},
		prepare: prepareGoProxmox,
		env: func(s site, _ string) []string {
			return []string{
				"PROXMOX_URL=" + s.endpoint + "/api2/json", "PROXMOX_USERNAME=root@pam", "PROXMOX_PASSWORD=" + s.password,
				"PROXMOX_TOKENID=" + s.tokenID, "PROXMOX_SECRET=" + s.secret, "PROXMOX_NODE_NAME=" + s.node, "PROXMOX_NODE_STORAGE=" + s.storage,
				"TZ=America/Phoenix", // two tests take 07:00 UTC for midnight, as where their author lives
				"PROXMOX_ISO_URL=http://images.example/ubuntu.iso", "PROXMOX_VNC_VMID=200",
			}
		},
	}, {
		name: "bpg/proxmox", module: "github.com/bpg/terraform-provider-proxmox", version: "v0.111.1",
		tags: "acceptance", packages: []string{"./fwprovider/test", "./fwprovider/nodes/vm/...", "./fwprovider/storage"}, apart: true,
		skip:  twoHosts,
		needs: []string{"tofu", "terraform"}, model: peersModel, files: map[string]string{minimalImage: nobleImage, "mismatch.iso": "", "template.tar.zst": "", "test.iso": ""},
		env: bpgEnv,
	}, {
		name: "bpg/proxmox beyond machines", module: "github.com/bpg/terraform-provider-proxmox", version: "v0.111.1",
		tags: "acceptance", apart: true, needs: []string{"tofu", "terraform"}, model: peersModel, files: map[string]string{minimalImage: nobleImage},
		packages: []string{
			"./fwprovider", "./fwprovider/access", "./fwprovider/cluster/ha", "./fwprovider/cluster/hardwaremapping",
			"./fwprovider/cluster/options", "./fwprovider/nodes/clonedvm", "./fwprovider/nodes/config", "./fwprovider/nodes/datastores",
			"./fwprovider/nodes/firewall", "./fwprovider/nodes/hardware", "./fwprovider/nodes/network",
		},
		env: bpgEnv,
	}, {
		name: "bpg/proxmox on two hosts", module: "github.com/bpg/terraform-provider-proxmox", version: "v0.111.1",
		tags: "acceptance", packages: []string{"./fwprovider/test"}, only: twoHosts,
		needs: []string{"tofu", "terraform"}, model: "two-hosts",
		env: func(s site, program string) []string {
			s.node = "pve1"
			return append(bpgEnv(s, program), "PROXMOX_VE_ACC_NODE_2_NAME=pve2", "PROXMOX_VE_ACC_VM_MIGRATE_HOSTPCI_ID=0000:01:00.0")
		},
	}}
}

// bpgEnv is the environment with which bpg's tests find a pvesim.
func bpgEnv(s site, program string) []string {
	return []string{
		"HOME=" + s.dir, // it writes to ~/.ssh/known_hosts
		"TF_ACC=1", "TF_ACC_TERRAFORM_PATH=" + program, "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=" + os.DevNull,
		"PROXMOX_VE_ENDPOINT=" + s.endpoint + "/", "PROXMOX_VE_INSECURE=true", "PROXMOX_VE_API_TOKEN=" + s.tokenID + "=" + s.secret,
		"PROXMOX_VE_USERNAME=root@pam", "PROXMOX_VE_PASSWORD=" + s.password,
		"PROXMOX_VE_SSH_USERNAME=root", "PROXMOX_VE_SSH_PRIVATE_KEY=" + read(s.sshKey),
		"PROXMOX_VE_ACC_IFACE_NAME=eno1", "PROXMOX_VE_ACC_NODE_NAME=" + s.node, "PROXMOX_VE_ACC_NODE_SSH_ADDRESS=127.0.0.1", "PROXMOX_VE_ACC_NODE_SSH_PORT=" + s.sshPort,
		"PROXMOX_VE_ACC_NFS_SERVER=192.0.2.9", "PROXMOX_VE_ACC_NFS_EXPORT=/tank", "PROXMOX_VE_ACC_NFS_DATASTORE_ID=nas",
	}
}

func read(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(b)
}

// prepareGoProxmox gives the integration tests what they name and the module does not have
// any more, and brings one call up to the module's own signature.
func prepareGoProxmox(dir string) error {
	const missing = `package integration

import (
	"crypto/rand"
	"os"
)

const (
	tinycoreURL     = "http://images.example/Core-current.iso"
	ubuntuURL       = "http://images.example/ubuntu.iso"
	alpineAppliance = "http://images.example/alpine.tar.xz"
)

func nameGenerator(length int) string { return ("peer" + rand.Text() + rand.Text())[:length] }

func createTestISO(file string) error { return os.WriteFile(file, make([]byte, 1<<16), 0o600) }
`
	tests := filepath.Join(dir, "tests", "integration")
	if err := os.WriteFile(filepath.Join(tests, "missing_test.go"), []byte(missing), 0o600); err != nil {
		return err
	}
	machines := filepath.Join(tests, "virtual_machines_test.go")
	text, err := os.ReadFile(machines)
	if err != nil {
		return err
	}
	return os.WriteFile(machines, []byte(strings.ReplaceAll(string(text), "vm.Delete(context.TODO())", "vm.Delete(context.TODO(), nil)")), 0o600)
}

// minimalImage is the name of the image that bpg's tests download.
const minimalImage = "ubuntu-24.04-minimal-cloudimg-amd64.img"

// nobleImage is an image that the simulated guests boot from.
const nobleImage = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"

// twoHosts are bpg's tests that need a second host.
const twoHosts = "^TestAccResourceVMMigrateRemoveHostPCI$"

// peersModel is a host for these suites.
const peersModel = "peers.yaml"
