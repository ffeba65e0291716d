package session

import (
	"time"

	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/distribution"
)

// The flags of every command. A field with the tag help is a flag, by the field's name in lower case.
// "FILE: what it is" names the flag's value, as in -spec=FILE.

// Options are the flags of every command that reads the cluster's file.
type Options struct {
	Spec    string        // FILE: the cluster's file; default: cluster.yaml
	JSON    bool          // print data and events as lines of JSON
	Timeout time.Duration // DURATION: stop after this time, e.g. 1h
	ChartFlags

	Report  string           // FILE: write a page about it here, for a browser, also if it fails
	Start   bool             // start the lab if the file needs it and it does not run
	MakeKey bool             // create a login key if there is none; a command that only looks writes nothing
	Without bool             // go on without a Proxmox that cannot be reached: Away is why
	Console *console.Console // output; nil: standard error and output

	Distribution distribution.Maker // of files with distribution: talos; nil: the program does not have it
}

// ChartFlags are flags of commands that read charts.
type ChartFlags struct {
	Charts  string `help:"FOLDER: take charts from here before any repository"`
	Offline bool   `help:"take charts from that folder and the cache only"`
}

// ChangeFlags are flags of every command that changes something.
type ChangeFlags struct {
	Yes    bool `help:"do not ask: agree to everything that is shown"`
	NoWait bool `help:"end with exit code 4 if another run changes the same cluster or host, instead of waiting"`
}

// HostFlags choose a Proxmox VE host and how to log in to it.
type HostFlags struct {
	Host        string `help:"NAME: only this host of the file"`
	SSH         string `help:"USER@ADDRESS:PORT: log in to the host here, instead of where the file says"`
	Fingerprint string `help:"SHA256:…: the host's SSH key, for the first contact"`
}

// UpFlags are the flags of cluster:up.
type UpFlags struct {
	ChangeFlags
	Restart bool   `help:"agree to restarts of machines"`
	Login   bool   `help:"agree to add your login to machines that know none of your keys"`
	Destroy string `help:"A,B: agree to destroy these machines"`
}

// ImagesListFlags are the flags of images:list.
type ImagesListFlags struct {
	Names bool `help:"print the names alone, one a line"`
}

// ImagesMirrorFlags are the flags of images:mirror.
type ImagesMirrorFlags struct {
	Out     string `help:"FOLDER: copy them into this folder instead, to carry it to where there is no internet"`
	From    string `help:"FOLDER: copy all images of such a folder to the registry"`
	Arch    string `help:"A,B: architectures of images that have several; default: amd64"`
	Replace bool   `help:"overwrite what another image has under the same name"`
}

// GPUVerifyFlags are those of gpu:verify.
type GPUVerifyFlags struct {
	Level string        `help:"quick, full or burn: quick computes and reads nvidia-smi; full also over-allocates, reloads systemd, writes volumes and measures links; burn loads every free GPU; default: quick"`
	Burn  time.Duration `help:"DURATION: how long -level=burn loads the GPUs; default: 10m"`
	JUnit string        `help:"FILE: write every check here, for a CI system"`
}

// UpgradeFlags are the flags of k3s:upgrade.
type UpgradeFlags struct {
	UpFlags
	To string `help:"VERSION: the release of K3s, e.g. v1.36.6+k3s1"`
}

// DownFlags are the flags of cluster:down.
type DownFlags struct {
	ChangeFlags
	Also string `help:"NAME: destroy this NFS server with its data too"`
}

// InitFlags are the flags of cluster:init: answers in advance. It asks for what is empty, or
// uses its proposal if there is no terminal.
type InitFlags struct {
	Endpoint    string `help:"ADDRESS: the Proxmox VE host; lab: the simulated one"`
	Token       string `help:"USER@REALM!NAME: the API token"`
	Secret      string `help:"env:NAME|file:PATH: where the token's secret is"`
	Fingerprint string `help:"AB:CD:…: SHA-256 of the host's certificate"`
	Insecure    bool   `help:"do not check the certificate"`

	Name    string `help:"NAME: the cluster's name"`
	Servers int    `help:"1: how many servers; 3 survive the loss of one"`
	GPUs    int    `help:"2: GPUs of each worker"`
	Bridge  string `help:"vmbr0: the bridge of the nodes"`
	Prefix  string `help:"10.0.0.0/24: the network of the nodes"`
	Gateway string `help:"10.0.0.1: its gateway"`
	First   string `help:"10.0.0.11: the first address of the nodes; addresses in use are skipped"`

	Out   string `help:"FILE: the file to write; default: cluster.yaml"`
	Yes   bool   `help:"do not ask: take what it proposes"`
	Force bool   `help:"replace the file"`
}

// FleetRenderFlags are the flags of fleet:render.
type FleetRenderFlags struct {
	Out   string `help:"FOLDER: the folder to write; default: fleet"`
	Force bool   `help:"overwrite files that were changed by hand"`
	Live  bool   `help:"ask the cluster too, for what only the cluster knows"`
}

// FleetPushFlags are the flags of fleet:push.
type FleetPushFlags struct {
	ChangeFlags
	Force bool `help:"overwrite files that were changed by hand"`
}

// HostPrepFlags are the flags of host:prep.
type HostPrepFlags struct {
	HostFlags
	ChangeFlags
	Name        string `help:"CLUSTER: the cluster's name, while there is no file"`
	Out         string `help:"FILE: the file for the secret of a token that it creates"`
	Reboot      bool   `help:"reboot hosts that wait for it"`
	Force       bool   `help:"create a new token if the old one's secret is missing"`
	Framebuffer bool   `help:"take the console off the card that the host booted on"`
}

// HostRoleFlags are the flags of host:role.
type HostRoleFlags struct {
	PVE string `help:"8.4: the version of Proxmox VE, instead of asking the host"`
}

// HostTrialFlags are the flags of host:trial.
type HostTrialFlags struct {
	ChangeFlags
	From string `help:"STEP: start with this step"`
	Out  string `help:"FILE: write the record here, as FILE.md or FILE.json"`
}

// HubOpenFlags are the flags of hub:open.
type HubOpenFlags struct {
	Browser bool `help:"open it in the browser"`
	Port    int  `help:"8000: forward this port of this machine"`
}

// HubVerifyFlags are the flags of hub:verify.
type HubVerifyFlags struct {
	Profile string `help:"NAME: only this profile"`
}

// ModelVerifyFlags are the flags of model:verify.
type ModelVerifyFlags struct {
	Model string `help:"NAME: only this model"`
}

// ModelUseFlags are the flags of model:use.
type ModelUseFlags struct {
	Days int `help:"30: days up to today"`
}

// LabStatusFlags are the flags of lab:status.
type LabStatusFlags struct {
	JSON bool `help:"print data as lines of JSON"`
}

// WatchFlags are the flags of cluster:watch.
type WatchFlags struct {
	Port    int  `help:"8080: listen on this port of this machine; default: any free one"`
	Browser bool `help:"open it in the browser"`
}

// NodeFlags are the flags of node:drain and node:uncordon, which all other node commands have
// too.
type NodeFlags struct {
	ChangeFlags
	Node string `help:"NAME: the node"`
}

// NodeCycleFlags are the flags of node:cycle.
type NodeCycleFlags struct {
	NodeFlags
	Force bool `help:"also a server that the others need"`
}

// NodeUpgradeFlags are the flags of node:upgrade.
type NodeUpgradeFlags struct {
	ChangeFlags
	Node string `help:"NAME: only this node; default: all, one after the other"`
}

// NodeReplaceFlags are the flags of node:replace.
type NodeReplaceFlags struct {
	NodeFlags
	Force bool `help:"destroy data too, and also a server that the others need"`
}

// NodeRemoveFlags are the flags of node:remove.
type NodeRemoveFlags struct {
	NodeFlags
	Force bool `help:"also a server that the others need"`
}

// PasswordsFlags are the flags of platform:passwords.
type PasswordsFlags struct {
	Yes bool `help:"print them into a file or a pipe too"`
}
