"""Validates the recipes against the schemas of Kubernetes and of SkyPilot.

    python schemas.py      needs kubernetes-validate, and the files of skypilot without its dependencies

The MPI operator's schema is on no package index: of its object, the pods are validated, and the keys around them are listed here.
"""

import copy
import importlib.metadata
import importlib.util
import sys
import types
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = "1.33"
MPI_KEYS = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "metadata": {"name", "namespace", "labels", "annotations"},
    "spec": {"slotsPerWorker", "launcherCreationPolicy", "runLauncherAsWorker", "sshAuthMountPath", "mpiImplementation", "runPolicy",
             "mpiReplicaSpecs"},
    "spec.runPolicy": {"cleanPodPolicy", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend"},
    "spec.mpiReplicaSpecs": {"Launcher", "Worker"},
    "spec.mpiReplicaSpecs.Launcher": {"replicas", "restartPolicy", "template"},
    "spec.mpiReplicaSpecs.Worker": {"replicas", "restartPolicy", "template"},
}
STORAGE_KEYS = {"name", "source", "store", "persistent", "mode", "type", "config"}


def documents(folder):
    """The YAML documents of a folder by their files."""
    paths = sorted((ROOT / "recipes" / folder).glob("*.yaml"))
    return [(path, document) for path in paths for document in yaml.safe_load_all(path.read_text())]


def at(document, path):
    """The value at a path with dots."""
    for key in filter(None, path.split(".")):
        document = document[key]
    return document


def mpi_job(document):
    """Validates an object of the MPI operator."""
    for path, known in MPI_KEYS.items():
        unknown = set(at(document, path)) - known
        if unknown:
            raise ValueError(f"unknown keys in `{path}`: {sorted(unknown)}")
    for replica in at(document, "spec.mpiReplicaSpecs").values():
        template = {"apiVersion": "v1", "kind": "PodTemplate", "template": replica["template"]}
        kubernetes_validate.validate(template, KUBERNETES, strict=True)


def kubernetes(document):
    """Validates an object of Kubernetes, or of the MPI operator."""
    if document["apiVersion"] == "kubeflow.org/v2beta1":
        return mpi_job(document)
    return kubernetes_validate.validate(document, KUBERNETES, strict=True)


def sky_schemas():
    """SkyPilot's module of schemas. Modules that it needs for more than schemas have stand-ins."""
    found = importlib.util.find_spec("sky")
    sky = types.ModuleType("sky")
    sky.__path__, sky.__version__ = list(found.submodule_search_locations), importlib.metadata.version("skypilot")
    autostop = types.ModuleType("sky.skylet.autostop_lib")
    autostop.AutostopWaitFor = types.SimpleNamespace(supported_modes=lambda: ["jobs_and_ssh", "jobs", "none"])
    sys.modules.update({"sky": sky, "sky.skylet.autostop_lib": autostop})
    skylet = importlib.import_module("sky.skylet")
    skylet.autostop_lib = autostop
    schemas = importlib.import_module("sky.utils.schemas")
    # The block `config` of a task has the schema of the whole configuration, which needs a database. No recipe has the block.
    schemas._task_config_schema = lambda: False
    return schemas


def skypilot(schemas, document):
    """Validates a task of SkyPilot."""
    jsonschema.Draft202012Validator(schemas.get_task_schema()).validate(document)
    jsonschema.Draft202012Validator(schemas.get_resources_schema()).validate(document.get("resources", {}))
    for path, storage in document.get("file_mounts", {}).items():
        unknown = set(storage) - STORAGE_KEYS if isinstance(storage, dict) else set()
        if unknown:
            raise ValueError(f"unknown keys of {path}: {sorted(unknown)}")


def mutations(document):
    """Copies of a document with one mistake each: an unknown key, in every mapping with a fixed set of keys."""
    free = {"matchLabels", "labels", "limits", "requests", "file_mounts", "envs", "annotations"}

    def below(value, path):
        if isinstance(value, dict):
            if not path or path[-1] not in free:
                yield path
            for key in value:
                yield from below(value[key], [*path, key])
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from below(item, [*path, number])

    for path in below(document, []):
        wrong = copy.deepcopy(document)
        inner = wrong
        for key in path:
            inner = inner[key]
        inner["noSuchKey"] = "x"
        yield path, wrong


def check(name, found, validate):
    """Validates documents, and checks that a mistake in any of their mappings is found."""
    mistakes = 0
    for path, document in found:
        try:
            validate(document)
        except Exception as error:
            sys.exit(f"{path.relative_to(ROOT)}: {getattr(error, 'message', error)}")
        for where, wrong in mutations(document):
            mistakes += 1
            try:
                validate(wrong)
            except Exception:
                continue
            sys.exit(f"{path.relative_to(ROOT)}: an unknown key at {where} is not found")
    print(f"{name}: {len(found)} objects are valid, {mistakes} planted mistakes are found")
    if not found or mistakes == 0:
        sys.exit(f"{name}: nothing was checked")


def main():
    check("kubernetes", documents("kubernetes"), kubernetes)
    schemas = sky_schemas()
    check("skypilot", documents("skypilot"), lambda document: skypilot(schemas, document))


main()
