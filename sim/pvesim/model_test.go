package pvesim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everything uses each key that a model can have.
const everything = `
version: "8.4.14"
noQuorum: false
nextID: {lower: 200, upper: 299}
hosts:
  - name: atlas
    kernel: 6.8.12-15-pve
    cpus: 32
    numaNodes: 2
    cpuModel: AMD EPYC 7313 16-Core Processor
    memory: 256GiB
    used: 12GiB
    clockOffset: 90s
    pci:
      - &card {address: 0000:41:00.0, id: 10de:2331, subsystem: 10de:1626, class: 030200, group: 40, numaNode: 1, product: NVIDIA H100 PCIe}
    storages:
      - name: local
        type: dir
        content: [iso, import]
        size: 100GiB
        files:
          - {name: iso/debian.iso, size: 600MiB}
          - {name: import/noble.qcow2, url: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img}
      - {name: tank, type: zfspool, content: [images], size: 1TiB, config: {pool: rpool/tank}}
    bridges: [vmbr0, vmbr1]
    vlanAware: [vmbr1]
    vids: {vmbr1: 2-99}
    noPorts: [vmbr1]
mappings:
  - id: h100
    description: the card
    map: ["node=atlas,path=0000:41:00.0,id=10de:2331,iommugroup=40,subsystem-id=10de:1626"]
pools: [{id: lab, comment: tests}]
roles: [{id: Looker, privs: [VM.Audit]}]
users: [{id: ops@pve, password: secret, comment: operations, expire: 1924992000}]
groups: [{id: ops, users: [ops@pve]}]
tokens: [{id: ops@pve!ci, secret: 4f1c0ade-5eed-4000-8000-00000c0ffee0, privSep: true}]
acls: [{path: /vms, who: "@ops", role: Looker, noPropagate: true}]
vms:
  - id: 9000
    node: atlas
    name: noble
    pool: lab
    image: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img
    config: {template: true, cores: 2, memory: 2048, scsi0: "tank:base-9000-disk-0,size=3584M", boot: order=scsi0}
  - id: 101
    node: atlas
    name: linked
    config: {scsi0: "tank:base-9000-disk-0/vm-101-disk-0,size=3584M", hostpci0: mapping=h100}
`

func TestAModelSaysEverythingThatAHostHas(t *testing.T) {
	m, err := ParseModel("model.yaml", []byte(everything))
	require.NoError(t, err)
	assert.Equal(t, "10de:2331", m.Hosts[0].PCI[0].ID)
	assert.Equal(t, "030200", m.Hosts[0].PCI[0].Class, "as it is written, not as an octal number")
	assert.Equal(t, "1", m.VMs[0].Config["template"])
	text, err := m.YAML()
	require.NoError(t, err)
	again, err := ParseModel("again.yaml", text)
	require.NoError(t, err)
	assert.Equal(t, m, again)

	s := New(m, Options{Speed: 1000})
	defer s.Close()
	vms := s.VMs()
	require.Len(t, vms, 2)
	assert.True(t, vms[1].Template)
	assert.Equal(t, []Mapping{{ID: "h100", Description: "the card", Devices: m.Mappings[0].Map}}, s.Mappings())
	volumes := map[string]Volume{}
	for _, v := range s.Volumes() {
		volumes[v.ID] = v
	}
	assert.EqualValues(t, 600*MiB, volumes["local:iso/debian.iso"].Size)
	assert.Equal(t, "tank:base-9000-disk-0", volumes["tank:base-9000-disk-0/vm-101-disk-0"].Base)
	assert.True(t, strings.HasPrefix(string(s.ReadVolume("atlas", "local:import/noble.qcow2")), "QFI\xfb"))
}

// TestPresetsAreFilesToBeginWith: printed with comments and without the secret that
// everybody knows, they are read as what they were.
func TestPresetsAreFilesToBeginWith(t *testing.T) {
	for _, name := range Presets() {
		want, err := LoadModel(name)
		require.NoError(t, err)
		want.Tokens[0].Secret = ""
		text, err := PresetYAML(name)
		require.NoError(t, err)
		assert.Contains(t, string(text), "pci: # one entry a function of a device")
		got, err := ParseModel(name+".yaml", text)
		require.NoError(t, err, "%s", text)
		assert.Equal(t, want, got)
	}
	_, err := LoadModel("nine-a100")
	assert.EqualError(t, err, `no model "nine-a100": there are one-gpu, two-hosts, eight-a100, or name a YAML file`)
}

func TestEverythingThatIsWrongInAModelIsSaidAtOnce(t *testing.T) {
	text := strings.NewReplacer(
		"cpus: 32", "cpus: many",
		"numaNodes: 2", "numaNode: 2",
		"0000:41:00.0, id: 10de:2331", "0000:4B:00.0, id: 10de",
		"memory: 256GiB", "memory: 256 gigs",
		"used: 12GiB", "used: [12GiB]",
		"clockOffset: 90s", "clockOffset: late",
		"name: iso/debian.iso", "name: debian.iso",
		"vlanAware: [vmbr1]", "vlanAware: [vmbr7]",
		"node=atlas,path", "knot=atlas,path",
		"who: \"@ops\"", "who: ops",
		"    node: atlas\n    name: linked", "    node: boreas\n    name: linked",
		"hostpci0: mapping=h100", "hostpci0: mapping=h100, coers: 4",
	).Replace(everything)
	_, err := ParseModel("bad.yaml", []byte(text))
	var wrong ModelErrors
	require.True(t, errors.As(err, &wrong))
	golden(t, "model-errors.txt", wrong.Error()+"\n")
}

func TestAModelThatIsNoYAML(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "m.yaml:1:1: the file is empty: a model begins with hosts:",
		"hosts: [":                      "m.yaml:1:8: this is not YAML: ",
		"hosts: []\n---\nhosts: []\n":   "m.yaml:3:6: a second document begins here: keep one in a file",
		"3":                             "m.yaml:1:1: keys and values belong here\nm.yaml:1:1: a model needs hosts: a list with at least one",
		"hosts: {a: 3}":                 "m.yaml:1:8: a list belongs here",
		"hosts: *h":                     "m.yaml:1:8: no anchor &h above this",
		"hosts: [{name: a}]\nzebras: 1": `m.yaml:2:1: no key "zebras" here: there are version, qemu, noQuorum, `,
	} {
		_, err := ParseModel("m.yaml", []byte(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// golden compares with a file of testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func FuzzParseModel(f *testing.F) {
	f.Add(everything)
	for _, m := range []Model{OneGPU(), EightA100(), TwoHosts()} {
		text, err := m.YAML()
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("a: &a [*a]\nhosts: *a")
	f.Add("hosts: [{name: a, storages: [{name: x, files: [{}]}]}]\nvms: [{id: 100, config: {scsi0: ','}}]")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseModel("fuzz.yaml", []byte(text))
		if err != nil {
			assert.NotContains(t, err.Error(), "%!", "a format with the wrong arguments")
			return
		}
		again, err := m.YAML()
		require.NoError(t, err)
		if _, err := ParseModel("again.yaml", again); err != nil {
			t.Fatalf("what was read and written is refused: %v\n%s", err, again)
		}
	})
}
