package hostprep

// BackupSuffix is what tests from outside find copies by.
const BackupSuffix = backupSuffix
