# Runs in the specialize pass of Windows Setup, as SYSTEM: installs cloudbase-init from the disc that has it, lets it read the
# disc that this script is on, and installs virtio's drivers and QEMU's guest agent last. An agent that answers says by that
# that the rest is there. What it did is in C:\Windows\Temp\install.log.
param([Parameter(Mandatory)][string]$SHA256)
$ErrorActionPreference = 'Stop'
Start-Transcript -Path "$env:SystemRoot\Temp\install.log" -Append | Out-Null

# Find-OnDisc returns the path of a file in the root folder of a disc: the letters of drives are not fixed.
function Find-OnDisc([string]$Name) {
    $found = Get-PSDrive -PSProvider FileSystem | ForEach-Object { Join-Path $_.Root $Name } | Where-Object { Test-Path -LiteralPath $_ }
    if (-not $found) { throw "no disc has $Name" }
    @($found)[0]
}

# Invoke-Installer runs an installer to its end. 3010 means that the next boot, which Setup does anyway, completes it.
function Invoke-Installer([string]$Path, [string[]]$Arguments) {
    $done = Start-Process -FilePath $Path -ArgumentList $Arguments -Wait -PassThru
    if ($done.ExitCode -notin 0, 3010) { throw "$Path $Arguments ended with $($done.ExitCode)" }
}

$disc = Find-OnDisc 'CloudbaseInitSetup_x64.msi'
$installer = Join-Path $env:SystemRoot 'Temp\CloudbaseInitSetup_x64.msi'
Copy-Item -LiteralPath $disc -Destination $installer -Force
if ((Get-FileHash -LiteralPath $installer -Algorithm SHA256).Hash -ne $SHA256) { throw "$disc does not have the checksum $SHA256" }
Invoke-Installer 'msiexec.exe' '/i', $installer, '/qn', '/norestart', 'RUN_SERVICE_AS_LOCAL_SYSTEM=1', '/l*v', "$env:SystemRoot\Temp\cloudbase-init.log"

$folder = Join-Path $env:ProgramFiles 'Cloudbase Solutions\Cloudbase-Init'
@"
[DEFAULT]
groups=Administrators
inject_user_password=false
first_logon_behaviour=no
config_drive_cdrom=true
config_drive_raw_hhd=false
config_drive_vfat=false
metadata_services=cloudbaseinit.metadata.services.nocloudservice.NoCloudConfigDriveService
plugins=cloudbaseinit.plugins.common.mtu.MTUPlugin,cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin,cloudbaseinit.plugins.common.networkconfig.NetworkConfigPlugin,cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin,cloudbaseinit.plugins.common.userdata.UserDataPlugin
bsdtar_path=$folder\bin\bsdtar.exe
mtools_path=$folder\bin\
logdir=$folder\log\
logfile=cloudbase-init.log
check_latest_version=false
"@ | Set-Content -LiteralPath (Join-Path $folder 'conf\cloudbase-init.conf') -Encoding Ascii
& sc.exe config cloudbase-init obj= LocalSystem start= auto
if ($LASTEXITCODE -ne 0) { throw "sc.exe config cloudbase-init ended with $LASTEXITCODE" }

if (Get-Service sshd -ErrorAction SilentlyContinue) { Set-Service sshd -StartupType Automatic } # new Windows Servers have it, switched off

Invoke-Installer (Find-OnDisc 'virtio-win-guest-tools.exe') '/install', '/quiet', '/norestart', '/log', "$env:SystemRoot\Temp\virtio-win.log"
Stop-Transcript | Out-Null
