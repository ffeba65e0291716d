// Package facts is for tests: it holds what they know of programs of others against
// the full sources.
//
// What a test knows is a small file in its testdata: keys, types and limits, without
// the prose around them. The test always goes by that file. Where the variable
// HOMELAB_FACTS names a folder with the full sources, the file is made of them anew and
// must come out the same; with -update it is written. The folder holds
//
//	charts/NAME/values.yaml, values.schema.json, questions.yaml   as the charts have them
//	crds/GROUP_PLURAL.yaml                                        definitions of kinds that charts bring
//	schemas/cloud-init-VERSION-schema-KIND.json                   cloud-init's own
//	values/kube-vip/daemonset.yaml, rbac.yaml                     as kube-vip generates them
//	pve9-api.json                                                 Proxmox VE's dump of its API
//	nvidia-gpus.json                                              NVIDIA's lists of GPUs, joined
//
// Whole charts are too large for that. Tests that render them ask [Charts] for a folder.
package facts
