"""What every child is made from, and the metadata they have in common. Pure."""

from dataclasses import dataclass
from typing import Any

from dtj_api import names
from dtj_api.spec import JobSpec

Object = dict[str, Any]


@dataclass(frozen=True)
class Blueprint:
    """One attempt of one job.

    Attributes:
        uid: of the job; its children's owner.
        spec: valid.
        trainer_image: for `training` whose template names no image.
        scraper_namespaces: from where metrics are scraped; empty means every namespace.
        volume_modes: access modes of the user's claim, where `checkpoint.claimName` names one that was found.
    """

    namespace: str
    job: str
    uid: str
    attempt: int
    spec: JobSpec
    trainer_image: str
    scraper_namespaces: tuple[str, ...] = ()
    volume_modes: tuple[str, ...] = ()

    def job_metadata(self, name: str, *, owned: bool = True) -> Object:
        """Metadata of a child that outlives attempts; not `owned`, it outlives the job too."""
        labels = {names.LABEL_JOB: self.job, names.LABEL_MANAGED_BY: names.MANAGED_BY}
        metadata: Object = {"name": name, "namespace": self.namespace, "labels": labels}
        if owned:
            metadata["ownerReferences"] = [self._owner()]
        return metadata

    def _owner(self) -> Object:
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": self.job,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def attempt_metadata(self, name: str) -> Object:
        """Metadata of a child of this attempt alone."""
        metadata = self.job_metadata(name)
        metadata["labels"] |= {names.LABEL_ATTEMPT: str(self.attempt)}
        return metadata

    def attempt_selector(self) -> dict[str, str]:
        """Labels that all pods of this attempt have, and no others."""
        return {names.LABEL_JOB: self.job, names.LABEL_ATTEMPT: str(self.attempt)}
