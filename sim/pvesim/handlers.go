package pvesim

import "maps"

// handlers is the code behind each method that is served, in the schema's own terms.
func handlers() map[string]handler {
	all := map[string]handler{}
	for _, some := range []map[string]handler{
		clusterHandlers(), nodeHandlers(), vmHandlers(), snapshotHandlers(), runStateHandlers(), cloudDriveHandlers(), accessHandlers(), storageHandlers(),
		registerHandlers(), moreClusterHandlers(), moreNodeHandlers(), networkHandlers(), agentHandlers(), firewallHandlers(), containerHandlers(), indexHandlers(),
		nothingHandlers(), metricHandlers(), nodeConfigHandlers(), bulkHandlers(), bulkGuestHandlers(), consoleHandlers(), unlikelyHandlers(), backupHandlers(), haRuleHandlers(), sdnHandlers(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func clusterHandlers() map[string]handler {
	const mapping = "/cluster/mapping/pci"
	return map[string]handler{
		"GET /version":                (*call).versionInfo,
		"GET /access/permissions":     (*call).permissions,
		"POST /access/ticket":         (*call).login,
		"GET /cluster/nextid":         (*call).nextID,
		"GET /cluster/resources":      (*call).resources,
		"GET /cluster/status":         (*call).clusterStatus,
		"GET /cluster/tasks":          (*call).clusterTasks,
		"GET " + mapping:              (*call).listMappings,
		"POST " + mapping:             (*call).createMapping,
		"GET " + mapping + "/{id}":    (*call).getMapping,
		"PUT " + mapping + "/{id}":    (*call).updateMapping,
		"DELETE " + mapping + "/{id}": (*call).deleteMapping,
		"GET /nodes":                  (*call).listNodes,
		"GET /pools":                  (*call).listPools,
		"POST /pools":                 (*call).createPool,
		"PUT /pools":                  (*call).updatePool,
		"DELETE /pools":               (*call).deletePool,
	}
}

func nodeHandlers() map[string]handler {
	const (
		node    = "/nodes/{node}"
		storage = "/nodes/{node}/storage/{storage}"
		task    = "/nodes/{node}/tasks/{upid}"
	)
	return map[string]handler{
		"GET " + node + "/status":                 (*call).nodeStatus,
		"GET " + node + "/hardware/pci":           (*call).listPCI,
		"GET " + node + "/tasks":                  (*call).listTasks,
		"GET " + task + "/status":                 (*call).taskStatus,
		"GET " + task + "/log":                    (*call).taskLog,
		"DELETE " + task:                          (*call).stopTask,
		"GET " + node + "/storage":                (*call).listStorages,
		"GET " + storage + "/status":              (*call).storageStatus,
		"GET " + storage + "/content":             (*call).storageContent,
		"POST " + storage + "/upload":             (*call).uploadFile,
		"POST " + storage + "/download-url":       (*call).downloadURL,
		"GET " + storage + "/content/{volume}":    (*call).volumeInfo,
		"DELETE " + storage + "/content/{volume}": (*call).deleteVolume,
	}
}

func vmHandlers() map[string]handler {
	const (
		node = "/nodes/{node}"
		vm   = "/nodes/{node}/qemu/{vmid}"
	)
	return map[string]handler{
		"GET " + node + "/qemu":            (*call).listVMs,
		"POST " + node + "/qemu":           (*call).createVM,
		"DELETE " + vm:                     (*call).destroyVM,
		"GET " + vm + "/config":            (*call).getConfig,
		"PUT " + vm + "/config":            (*call).putConfig,
		"POST " + vm + "/config":           (*call).postConfig,
		"GET " + vm + "/pending":           (*call).getPending,
		"PUT " + vm + "/resize":            (*call).resizeDisk,
		"POST " + vm + "/clone":            (*call).cloneVM,
		"POST " + vm + "/template":         (*call).makeTemplate,
		"GET " + vm + "/status/current":    (*call).currentStatus,
		"POST " + vm + "/status/start":     (*call).startVM,
		"POST " + vm + "/status/stop":      (*call).stopVM,
		"POST " + vm + "/status/shutdown":  (*call).shutdownVM,
		"POST " + vm + "/status/reboot":    (*call).rebootVM,
		"POST " + vm + "/status/reset":     (*call).resetVM,
		"POST " + vm + "/agent":            (*call).agentCommand,
		"POST " + vm + "/agent/exec":       (*call).agentExec,
		"GET " + vm + "/agent/exec-status": (*call).agentExecStatus,
		"GET " + vm + "/agent/file-read":   (*call).agentFileRead,
		"POST " + vm + "/agent/file-write": (*call).agentFileWrite,
	}
}
