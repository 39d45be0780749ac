//! A driver of ADBC, in the same library: `SimjoinDriverInit` is its entry point.
//!
//! A database is a session, which its connections share. `simjoin.dbapi` opens one by way of
//! adbc_driver_manager.

mod catalog;
mod statement;

use std::collections::HashSet;

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Connection, Database, Driver, Optionable};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, TableReference};
use simjoin_session::host::{Host, HostError};

use crate::runtime::runtime;
use statement::SqlStatement;

adbc_ffi::export_driver!(SimjoinDriverInit, SimjoinDriver);

/// The start of the names of options that are flags of the command line: `simjoin.memory_limit`.
const FLAGS: [&str; 4] = ["memory_limit", "disk_limit", "batch_size", "scheduler"];

/// A reader for a consumer in another language.
pub(crate) type Reader = Box<dyn RecordBatchReader + Send + 'static>;

/// The driver.
#[derive(Default)]
pub(crate) struct SimjoinDriver;

impl Driver for SimjoinDriver {
    type DatabaseType = SimjoinDatabase;

    fn new_database(&mut self) -> Result<SimjoinDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        options: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<SimjoinDatabase> {
        let (mut flags, mut settings) = (vec![], vec![]);
        for (key, value) in options {
            let (key, value) = (key.as_ref().to_string(), text_of(&key, value)?);
            match key.strip_prefix("simjoin.") {
                Some(flag) if FLAGS.contains(&flag) => {
                    flags.extend([format!("--{}", flag.replace('_', "-")), value]);
                }
                _ if key.contains('.') => settings.push((key, value)),
                // The session is in this process, and has no address.
                _ if key == "uri" && value.is_empty() => {}
                _ => return Err(unknown(&key)),
            }
        }
        let host = block_on(async { Host::open(flags) })?.map_err(of_host)?;
        let mut database = SimjoinDatabase { host };
        for (key, value) in settings {
            database.set(&key, &value)?;
        }
        Ok(database)
    }
}

/// A session.
pub(crate) struct SimjoinDatabase {
    host: Host,
}

impl SimjoinDatabase {
    /// Sets an option of the engine.
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        set_option(&self.host, key, value)
    }
}

impl Optionable for SimjoinDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, value: OptionValue) -> Result<()> {
        let text = text_of(&key, value)?;
        self.set(key.as_ref(), &text)
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        option(&self.host, key.as_ref())
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        option(&self.host, key.as_ref()).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        number(&key, &option(&self.host, key.as_ref())?)
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        number(&key, &option(&self.host, key.as_ref())?)
    }
}

impl Database for SimjoinDatabase {
    type ConnectionType = SimjoinConnection;

    fn new_connection(&self) -> Result<SimjoinConnection> {
        Ok(SimjoinConnection { host: self.host.clone() })
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<SimjoinConnection> {
        let mut connection = self.new_connection()?;
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }
}

/// A connection; all of a database share its tables and options.
pub(crate) struct SimjoinConnection {
    host: Host,
}

impl Optionable for SimjoinConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let text = text_of(&key, value)?;
        match key {
            // Statements are transactions, each for itself.
            OptionConnection::AutoCommit if text == "true" => Ok(()),
            OptionConnection::AutoCommit => Err(no_transactions()),
            key => set_option(&self.host, key.as_ref(), &text),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => Ok("true".to_string()),
            OptionConnection::CurrentCatalog => Ok(catalog::CATALOG.to_string()),
            OptionConnection::CurrentSchema => Ok(catalog::SCHEMA.to_string()),
            key => option(&self.host, key.as_ref()),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        number(&key, &self.get_option_string(key.clone())?)
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        number(&key, &self.get_option_string(key.clone())?)
    }
}

impl Connection for SimjoinConnection {
    type StatementType = SqlStatement;

    fn new_statement(&mut self) -> Result<SqlStatement> {
        Ok(SqlStatement::new(self.host.clone()))
    }

    /// Does nothing: statements are cancelled by themselves.
    fn cancel(&mut self) -> Result<()> {
        Ok(())
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Reader> {
        Ok(one(catalog::info(codes)?))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Reader> {
        let asked = catalog::Asked { catalog, db_schema, table_name, table_type, column_name };
        Ok(one(block_on(catalog::objects(self.host.context(), depth, &asked))??))
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let table = TableReference::full(
            catalog.unwrap_or(catalog::CATALOG).to_string(),
            db_schema.unwrap_or(catalog::SCHEMA).to_string(),
            table_name.to_string(),
        );
        let context = self.host.context();
        let provider = block_on(async { context.table_provider(table).await })?;
        let provider = provider.map_err(|error| {
            Error::with_message_and_status(of_engine(error).message, Status::NotFound)
        })?;
        Ok(provider.schema().as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Reader> {
        Ok(one(catalog::table_types()?))
    }

    fn get_statistic_names(&self) -> Result<Reader> {
        Err(not_implemented("statistics"))
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Reader> {
        Err(not_implemented("statistics"))
    }

    fn commit(&mut self) -> Result<()> {
        Err(no_transactions())
    }

    fn rollback(&mut self) -> Result<()> {
        Err(no_transactions())
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Reader> {
        Err(not_implemented("partitions of results"))
    }
}

/// A reader of one batch.
fn one(batch: RecordBatch) -> Reader {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

/// Waits for a future, on this thread.
fn block_on<F: Future>(future: F) -> Result<F::Output> {
    match runtime() {
        Ok(runtime) => Ok(runtime.block_on(future)),
        Err(_) => {
            Err(Error::with_message_and_status("the system gives no threads", Status::Internal))
        }
    }
}

/// Sets an option of the engine.
fn set_option(host: &Host, key: &str, value: &str) -> Result<()> {
    let is_name =
        key.contains('.') && key.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c));
    if !is_name {
        return Err(unknown(key));
    }
    let set = format!("SET {key} = '{}'", value.replace('\'', "''"));
    block_on(async { host.run(&set, None).await.map(drop) })?.map_err(of_host)
}

/// The value of an option of the engine.
fn option(host: &Host, key: &str) -> Result<String> {
    let options = host.context().copied_config().options().entries();
    let option = options.into_iter().find(|option| option.key == key);
    let value = option.ok_or_else(|| unknown(key))?.value;
    Ok(value.unwrap_or_default())
}

/// The text of an option's value.
fn text_of(key: &impl AsRef<str>, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        OptionValue::Int(number) => Ok(number.to_string()),
        OptionValue::Double(number) => Ok(number.to_string()),
        _ => Err(invalid(format!("the option {} takes text or a number", key.as_ref()))),
    }
}

fn number<T: std::str::FromStr>(key: &impl AsRef<str>, text: &str) -> Result<T> {
    text.parse().map_err(|_| invalid(format!("the option {} is {text}", key.as_ref())))
}

fn invalid(text: String) -> Error {
    Error::with_message_and_status(text, Status::InvalidArguments)
}

fn unknown(key: &str) -> Error {
    Error::with_message_and_status(
        format!(
            "{key} is no option; there are simjoin.memory_limit, simjoin.disk_limit, \
             simjoin.batch_size and the options that SHOW ALL lists"
        ),
        Status::NotFound,
    )
}

fn not_implemented(what: &str) -> Error {
    let text = format!("simjoin has no {what} for ADBC");
    Error::with_message_and_status(text, Status::NotImplemented)
}

fn no_transactions() -> Error {
    not_implemented("transactions: leave adbc.connection.autocommit on")
}

/// The error of a statement, with its hint.
fn of_host(error: HostError) -> Error {
    let hint = error.hint().map(|hint| format!("\nHint: {hint}")).unwrap_or_default();
    let status = match error.source().map(DataFusionError::find_root) {
        Some(DataFusionError::Plan(_) | DataFusionError::SQL(..)) | None => {
            Status::InvalidArguments
        }
        Some(DataFusionError::SchemaError(..)) => Status::NotFound,
        Some(DataFusionError::NotImplemented(_)) => Status::NotImplemented,
        Some(DataFusionError::IoError(_) | DataFusionError::ObjectStore(_)) => Status::IO,
        Some(_) => Status::Internal,
    };
    Error::with_message_and_status(format!("{}{hint}", error.text()), status)
}

/// The error of DataFusion outside of a statement.
fn of_engine(error: impl Into<DataFusionError>) -> Error {
    of_host(HostError::of(error.into(), ""))
}
