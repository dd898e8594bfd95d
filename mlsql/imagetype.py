"""Pictures in Arrow: an extension type whose storage any reader understands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from mlsql.image import Image

STORAGE = pa.struct([("uri", pa.string()), ("frame", pa.int64()), ("data", pa.binary())])


class ImageScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One picture; `as_py` gives an `mlsql.Image`."""

    def as_py(self, **options: Any) -> Image | None:
        value = None if self.value is None else self.value.as_py()
        return None if value is None else Image(value["uri"], value["frame"], value["data"])


class ImageType(pa.ExtensionType):  # type: ignore[misc]
    """mlsql.image: a struct of uri, frame and data, as `mlsql.Image` has them."""

    def __init__(self) -> None:
        super().__init__(STORAGE, "mlsql.image")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> ImageType:
        return cls()

    def __arrow_ext_scalar_class__(self) -> type[ImageScalar]:
        return ImageScalar


def with_images(table: pa.Table, columns: Iterable[int]) -> pa.Table:
    """The table with these columns, which hold media, of the extension type."""
    kind = _registered()
    for at in columns:
        column = table.column(at)
        chunks = [pa.ExtensionArray.from_storage(kind, chunk.cast(STORAGE))
                  for chunk in column.chunks]
        field = pa.field(table.schema.field(at).name, kind)
        table = table.set_column(at, field, pa.chunked_array(chunks, kind))
    return table


def _registered() -> ImageType:
    """The type, known to Arrow from now on, so that files and streams give it back."""
    kind = ImageType()
    try:
        pa.register_extension_type(kind)
    except pa.ArrowKeyError:  # it is known
        pass
    return kind
